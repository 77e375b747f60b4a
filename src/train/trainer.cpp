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
      input_elements_(compute::elements(graph.input)),
      labels_(graph.loss.kind == compute::LossKind::cross_entropy ? graph.positions : 0),
      target_elements_(labels_ == 0 ? graph.outputs() : 0) {}

Result<float> Trainer::step(std::span<float> parameters, std::span<float> buffers,
                            const compute::Batch& batch, float lr, std::uint64_t seed) {
  auto loss = compute_gradient(parameters, buffers, batch, seed);
  if (!loss) return loss;
  if (auto status = apply(parameters, lr); !status) return fail(status.error());
  return loss;
}

Result<float> Trainer::compute_gradient(std::span<const float> parameters, std::span<float> buffers,
                                        const compute::Batch& batch, std::uint64_t seed) {
  auto loss = program_->forward_backward(parameters, buffers, batch, seed, gradient_);
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

Result<Evaluation> Trainer::evaluate(std::span<const float> parameters,
                                     std::span<const float> buffers, const compute::Batch& set) {
  const std::size_t inputs = set.samples.size() + set.tokens.size();
  ASSERT(inputs > 0 && inputs % input_elements_ == 0);
  const std::size_t all = inputs / input_elements_;
  const auto part_of = [](auto values, std::size_t first, std::size_t count, std::size_t width) {
    return values.empty() ? values : values.subspan(first * width, count * width);
  };
  compute::Evaluation sum;
  for (std::size_t first = 0; first < all; first += program_->batch()) {
    const std::size_t count = std::min<std::size_t>(program_->batch(), all - first);
    const auto part =
        program_->evaluate(parameters, buffers,
                           {.samples = part_of(set.samples, first, count, input_elements_),
                            .tokens = part_of(set.tokens, first, count, input_elements_),
                            .labels = part_of(set.labels, first, count, labels_),
                            .targets = part_of(set.targets, first, count, target_elements_)});
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
