#include "train/trainer.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <utility>

#include "base/assert.hpp"

namespace starling::train {

using base::ErrorCode;
using base::fail;
using base::Result;
using base::Status;

namespace {

/// Over the integer bits, which vectorises: an exponent of all ones is infinite or not a number.
bool all_finite(std::span<const float> values) noexcept {
  std::uint32_t largest = 0;
  for (const float value : values) {
    largest = std::max(largest, std::bit_cast<std::uint32_t>(value) & 0x7fffffffU);
  }
  return largest < 0x7f800000U;
}

}  // namespace

Result<Trainer> Trainer::create(const compute::Graph& graph, const Config& config) {
  auto backend = compute::open_backend(config.device);
  if (!backend) return fail(backend.error());
  auto program = (*backend)->compile(graph, config.batch, config.threads);
  if (!program) return fail(program.error());
  return Trainer(graph, config, std::move(*program));
}

Trainer::Trainer(const compute::Graph& graph, const Config& config,
                 std::unique_ptr<compute::Program> program)
    : program_(std::move(program)),
      rule_(config, graph.parameter_count),
      gradient_(graph.parameter_count),
      sample_elements_(compute::elements(graph.input)) {}

Result<float> Trainer::step(std::span<float> parameters, const compute::Batch& batch, float lr) {
  auto loss = compute_gradient(parameters, batch);
  if (!loss) return loss;
  if (auto status = apply(parameters, lr); !status) return fail(status.error());
  return loss;
}

Result<float> Trainer::compute_gradient(std::span<const float> parameters,
                                        const compute::Batch& batch) {
  auto loss = program_->forward_backward(parameters, batch, gradient_);
  if (loss && !std::isfinite(*loss)) {
    return fail(ErrorCode::diverged,
                "the loss is {}: lower train.lr, or look for values in the "
                "data that are not finite",
                *loss);
  }
  return loss;
}

Status Trainer::apply(std::span<float> parameters, float lr) {
  if (!all_finite(gradient_)) {
    return fail(ErrorCode::diverged, "the gradient is not finite: lower train.lr");
  }
  rule_.apply(parameters, gradient_, lr);
  return {};
}

Result<Evaluation> Trainer::evaluate(std::span<const float> parameters, const compute::Batch& set) {
  ASSERT(set.count() > 0 && set.samples.size() == set.count() * sample_elements_);
  compute::Evaluation sum;
  for (std::size_t first = 0; first < set.count(); first += program_->batch()) {
    const std::size_t count = std::min<std::size_t>(program_->batch(), set.count() - first);
    const auto part = program_->evaluate(
        parameters, {set.samples.subspan(first * sample_elements_, count * sample_elements_),
                     set.labels.subspan(first, count)});
    if (!part) return fail(part.error());
    sum.loss_sum += part->loss_sum;
    sum.correct += part->correct;
    sum.count += part->count;
  }
  const auto count = static_cast<double>(sum.count);
  return Evaluation{static_cast<double>(sum.correct) / count, sum.loss_sum / count};
}

std::size_t Trainer::memory_bytes() {
  std::size_t bytes = program_->memory_bytes() + gradient_.size() * sizeof(float);
  for (const UpdateRule::Slot& slot : rule_.slots()) bytes += slot.values.size_bytes();
  return bytes;
}

}  // namespace starling::train
