#include "train/trainer.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <utility>

#include "base/assert.hpp"
#include "base/integer.hpp"
#include "base/rng.hpp"
#include "train/update_kernels.hpp"

namespace starling::train {

using base::ErrorCode;
using base::fail;
using base::Result;
using base::Status;

namespace {

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

compute::CompileOptions compile_options(const Config& config) {
  ASSERT(config.accumulate > 0);
  return {.batch = base::ceil_div(config.batch, config.accumulate),
          .threads = config.threads,
          .precision = config.precision};
}

Result<Trainer> Trainer::create(const compute::Graph& graph, const Config& config) {
  auto backend = compute::open_backend(config.device);
  if (!backend) return fail(backend.error());
  return create(**backend, graph, config);
}

Result<Trainer> Trainer::create(compute::Backend& backend, const compute::Graph& graph,
                                const Config& config) {
  auto program = backend.compile(graph, compile_options(config));
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
                            const compute::Batch& batch, float lr, std::uint64_t seed,
                            const compute::Batch* next) {
  ASSERT(parameters.empty() == (resident_ != nullptr), "the replica is trained where it lies");
  if (resident_ != nullptr) return step_on_device(buffers, batch, next, lr, seed);
  auto loss = compute_gradient(parameters, buffers, batch, seed);
  if (!loss) return loss;
  if (auto status = apply(parameters, lr); !status) return fail(status.error());
  return loss;
}

Result<float> Trainer::compute_gradient(std::span<const float> parameters, std::span<float> buffers,
                                        const compute::Batch& batch, std::uint64_t seed) {
  return checked(accumulate(parameters, buffers, batch, seed));
}

// The mean gradient and loss of a batch of any size.
Result<float> Trainer::accumulate(std::span<const float> parameters, std::span<float> buffers,
                                  const compute::Batch& batch, std::uint64_t seed) {
  float mean_loss = 0;
  for (const compute::Piece& piece : pieces_of(batch, seed)) {
    const bool first = &piece == &pieces_.front();
    const std::span<float> gradient = first ? gradient_ : piece_gradient_;
    auto loss = program_->forward_backward(parameters, buffers, piece.batch, piece.seed, gradient);
    if (!loss) return loss;
    mean_loss += piece.share * *loss;
    if (!first) {
      kernels::combine(gradient_.size(), gradient_.data(), 1.0F, gradient.data(), piece.share);
    } else if (piece.share != 1.0F) {
      kernels::scale(gradient_.size(), gradient_.data(), piece.share);
    }
  }
  return mean_loss;
}

// The pieces of a batch for the program, one after the other, valid until the next call.
std::span<const compute::Piece> Trainer::pieces_of(const compute::Batch& batch,
                                                   std::uint64_t seed) {
  const std::size_t all = samples_of(batch);
  if (all <= program_->batch()) {
    pieces_.assign(1, {.batch = batch, .seed = seed});
    return pieces_;
  }
  ASSERT(in_pieces_, "the batch is larger than train.batch");
  base::Rng seeds(seed);
  pieces_.clear();
  for (std::size_t first = 0; first < all; first += program_->batch()) {
    const compute::Batch part = piece(batch, first);
    const float share = static_cast<float>(samples_of(part)) / static_cast<float>(all);
    pieces_.push_back({part, share, seeds()});
  }
  return pieces_;
}

std::size_t Trainer::samples_of(const compute::Batch& batch) const noexcept {
  return (batch.samples.size() + batch.tokens.size()) / input_elements_;
}

// The samples from `first` on, as many as the program takes.
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
  if (!kernels::all_finite(gradient_)) return gradient_diverged();
  rule_.apply(parameters, gradient_, lr);
  return {};
}

Result<delta::ReplicaMemory*> Trainer::move_to_device(delta::MirrorType mirrors) {
  ASSERT(resident_ == nullptr);
  auto wanted = rule_.residence();
  if (!wanted) return nullptr;
  wanted->mirrors = mirrors;
  wanted->accumulates = in_pieces_;
  const auto resident = program_->move_to_device(*wanted);
  if (!resident) return fail(resident.error());
  if (*resident == nullptr) return nullptr;
  if (auto moved = rule_.move_to(**resident); !moved) return fail(moved.error());
  resident_ = *resident;
  gradient_ = {};
  piece_gradient_ = {};
  return &resident_->replica();
}

Result<float> Trainer::step_on_device(std::span<float> buffers, const compute::Batch& batch,
                                      const compute::Batch* next, float lr, std::uint64_t seed) {
  std::optional<compute::Batch> next_piece;
  if (next != nullptr) next_piece = piece(*next, 0);
  const auto done = resident_->step(buffers, pieces_of(batch, seed), rule_.next_update(lr),
                                    next_piece ? &*next_piece : nullptr);
  if (!done) return fail(done.error());
  auto loss = checked(done->loss);
  if (!loss) return loss;
  if (!std::isfinite(done->squares)) return gradient_diverged();
  rule_.count_step();
  return loss;
}

Status Trainer::snapshot(std::size_t size, const std::function<void(std::span<float>)>& read) {
  if (resident_ != nullptr) return resident_->snapshot();
  x_.resize(size);
  read(x_);
  return {};
}

Result<Evaluation> Trainer::evaluate(std::span<const float> buffers, const compute::Batch& set) {
  if (resident_ == nullptr) return evaluate(x_, buffers, set);
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
    sum += *part;
  }
  const auto count = static_cast<double>(sum.count);
  return Evaluation{static_cast<double>(sum.correct) / count, sum.loss_sum / count};
}

std::size_t Trainer::training_bytes() const noexcept {
  return rule_.memory_bytes() + (gradient_.size() + piece_gradient_.size()) * sizeof(float);
}

}  // namespace starling::train
