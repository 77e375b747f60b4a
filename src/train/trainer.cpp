#include "train/trainer.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <optional>
#include <utility>

#include "base/assert.hpp"
#include "base/rng.hpp"
#include "train/update_kernels.hpp"

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

Result<float> checked(Result<float> loss) {
  if (!loss || std::isfinite(*loss)) return loss;
  return fail(ErrorCode::diverged,
              "the loss is {}: lower train.lr, or look for values in the "
              "data that are not finite",
              *loss);
}

tl::unexpected<base::Error> gradient_diverged() {
  return fail(ErrorCode::diverged, "the gradient is not finite: lower train.lr");
}

}  // namespace

Result<Trainer> Trainer::create(const compute::Graph& graph, const Config& config) {
  auto backend = compute::open_backend(config.device);
  if (!backend) return fail(backend.error());
  return create(**backend, graph, config);
}

Result<Trainer> Trainer::create(compute::Backend& backend, const compute::Graph& graph,
                                const Config& config) {
  ASSERT(config.accumulate > 0);
  const std::uint32_t piece = (config.batch + config.accumulate - 1) / config.accumulate;
  auto program = backend.compile(
      graph, {.batch = piece, .threads = config.threads, .precision = config.precision});
  if (!program) return fail(program.error());
  return Trainer(graph, config, std::move(*program));
}

Trainer::Trainer(const compute::Graph& graph, const Config& config,
                 std::unique_ptr<compute::Program> program)
    : program_(std::move(program)),
      rule_(config, graph),
      in_pieces_(program_->batch() < config.batch),
      gradient_(graph.parameter_count),
      piece_gradient_(in_pieces_ ? graph.parameter_count : 0),
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
  auto loss = samples_of(batch) <= program_->batch()
                  ? program_->forward_backward(parameters, buffers, batch, seed, gradient_)
                  : accumulate(parameters, buffers, batch, seed);
  return checked(loss);
}

/// The mean gradient and loss of a batch that is larger than the program takes.
Result<float> Trainer::accumulate(std::span<const float> parameters, std::span<float> buffers,
                                  const compute::Batch& batch, std::uint64_t seed) {
  return for_pieces(batch, seed, [&](const Piece& at) {
    const std::span<float> gradient = at.first == 0 ? gradient_ : piece_gradient_;
    auto loss = program_->forward_backward(parameters, buffers, at.part, at.seed, gradient);
    if (!loss) return loss;
    if (at.first == 0) {
      kernels::scale(gradient_.size(), gradient_.data(), at.share);
    } else {
      kernels::combine(gradient_.size(), gradient_.data(), 1.0F, piece_gradient_.data(), at.share);
    }
    return loss;
  });
}

template <class ComputePiece>
Result<float> Trainer::for_pieces(const compute::Batch& batch, std::uint64_t seed,
                                  ComputePiece&& compute_piece) {
  ASSERT(in_pieces_, "the batch is larger than train.batch");
  const std::size_t all = samples_of(batch);
  base::Rng seeds(seed);
  float mean_loss = 0;
  for (std::size_t first = 0; first < all; first += program_->batch()) {
    const compute::Batch part = piece(batch, first);
    const float share = static_cast<float>(samples_of(part)) / static_cast<float>(all);
    const Result<float> loss = compute_piece(Piece{part, first, share, seeds()});
    if (!loss) return fail(loss.error());
    mean_loss += share * *loss;
  }
  return mean_loss;
}

std::size_t Trainer::samples_of(const compute::Batch& batch) const noexcept {
  return (batch.samples.size() + batch.tokens.size()) / input_elements_;
}

/// The samples from `first` on, as many as the program takes.
compute::Batch Trainer::piece(const compute::Batch& batch, std::size_t first) const noexcept {
  const std::size_t count = std::min<std::size_t>(program_->batch(), samples_of(batch) - first);
  const auto part = [&](auto values, std::size_t width) {
    return values.empty() ? values : values.subspan(first * width, count * width);
  };
  return {.samples = part(batch.samples, input_elements_),
          .tokens = part(batch.tokens, input_elements_),
          .labels = part(batch.labels, labels_),
          .targets = part(batch.targets, target_elements_)};
}

Status Trainer::apply(std::span<float> parameters, float lr) {
  if (!all_finite(gradient_)) return gradient_diverged();
  rule_.apply(parameters, gradient_, lr);
  return {};
}

Result<compute::ReplicaMemory*> Trainer::reside(compute::MirrorType mirrors) {
  ASSERT(!resides());
  auto wanted = rule_.residence();
  if (!wanted) return nullptr;
  wanted->mirrors = mirrors;
  wanted->accumulates = in_pieces_;
  const auto resident = program_->reside(*wanted);
  if (!resident) return fail(resident.error());
  if (*resident == nullptr) return nullptr;
  if (auto moved = rule_.move_to(**resident); !moved) return fail(moved.error());
  resident_ = *resident;
  gradient_ = {};
  piece_gradient_ = {};
  return &resident_->replica();
}

Result<float> Trainer::step(std::span<float> buffers, const compute::Batch& batch,
                            const compute::Batch* next, float lr, std::uint64_t seed) {
  ASSERT(resides());
  auto loss = checked(accumulate(buffers, batch, next, seed));
  if (!loss) return loss;
  const auto squares = resident_->gradient_squares();
  if (!squares) return fail(squares.error());
  if (!std::isfinite(*squares)) return gradient_diverged();
  if (auto applied = rule_.apply(*squares, lr); !applied) return fail(applied.error());
  return loss;
}

/// The same on the device, of a batch of any size.
Result<float> Trainer::accumulate(std::span<float> buffers, const compute::Batch& batch,
                                  const compute::Batch* next, std::uint64_t seed) {
  const std::size_t all = samples_of(batch);
  std::optional<compute::Batch> next_piece;
  if (next != nullptr) next_piece = piece(*next, 0);
  const auto pointer = [](const std::optional<compute::Batch>& some) {
    return some ? &*some : nullptr;
  };
  if (all <= program_->batch()) {
    return resident_->forward_backward(buffers, batch, seed, {}, pointer(next_piece));
  }
  return for_pieces(batch, seed, [&](const Piece& at) {
    const std::size_t end = at.first + program_->batch();
    const std::optional<compute::Batch> following = end < all ? piece(batch, end) : next_piece;
    return resident_->forward_backward(
        buffers, at.part, at.seed, {.share = at.share, .add = at.first > 0}, pointer(following));
  });
}

Status Trainer::hold_still() {
  ASSERT(resides());
  return resident_->hold_still();
}

Result<Evaluation> Trainer::evaluate(std::span<const float> buffers, const compute::Batch& set) {
  ASSERT(resides());
  return evaluate_pieces(
      set, [&](const compute::Batch& part) { return resident_->evaluate(buffers, part); });
}

Result<Evaluation> Trainer::evaluate(std::span<const float> parameters,
                                     std::span<const float> buffers, const compute::Batch& set) {
  return evaluate_pieces(set, [&](const compute::Batch& part) {
    return program_->evaluate(parameters, buffers, part);
  });
}

template <class EvaluatePiece>
Result<Evaluation> Trainer::evaluate_pieces(const compute::Batch& set,
                                            EvaluatePiece&& evaluate_piece) {
  const std::size_t all = samples_of(set);
  ASSERT(all > 0 && set.samples.size() + set.tokens.size() == all * input_elements_);
  compute::Evaluation sum;
  for (std::size_t first = 0; first < all; first += program_->batch()) {
    const auto part = evaluate_piece(piece(set, first));
    if (!part) return fail(part.error());
    sum.loss_sum += part->loss_sum;
    sum.correct += part->correct;
    sum.count += part->count;
  }
  const auto count = static_cast<double>(sum.count);
  return Evaluation{static_cast<double>(sum.correct) / count, sum.loss_sum / count};
}

std::size_t Trainer::memory_bytes() const noexcept {
  return program_->memory_bytes() + rule_.memory_bytes() +
         (gradient_.size() + piece_gradient_.size()) * sizeof(float);
}

}  // namespace starling::train
