#include "train/optimizer.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/assert.hpp"
#include "train/update_kernels.hpp"

namespace starling::train {
namespace {

/// What brings the gradient down to the norm that is allowed.
float clip_factor(std::span<const float> gradient, double clip) {
  if (clip == 0) return 1.0F;
  const double norm = std::sqrt(kernels::sum_of_squares(gradient.data(), gradient.size()));
  return norm > clip ? static_cast<float>(clip / norm) : 1.0F;
}

}  // namespace

UpdateRule::UpdateRule(const Config& config, const compute::Graph& graph)
    : config_(config),
      tensors_(graph.tensors),
      groups_(make_groups(graph, config)),
      first_(graph.parameter_count) {
  std::size_t squares = 0;
  for (const Group& group : groups_) squares += group.rule == Optimizer::adamw ? group.size : 0;
  second_.resize(squares);
  if (config.slow_every > 0) {
    moved_.resize(first_.size());
    slow_.resize(first_.size());
  }
  if (config.optimizer != Optimizer::muon) return;
  matrices_ = hidden_matrices(graph);
  std::size_t elements = 0;
  std::size_t side = 0;
  for (const Matrix& matrix : matrices_) {
    elements = std::max(elements, matrix.rows * matrix.cols);
    side = std::max(side, std::min(matrix.rows, matrix.cols));
  }
  update_.resize(elements);
  newton_schulz_.emplace(elements, side, config.threads);
}

void UpdateRule::apply(std::span<float> parameters, std::span<const float> gradient, float lr) {
  ASSERT(parameters.size() == first_.size() && gradient.size() == first_.size());
  if (config_.slow_every == 0) return apply_rule(parameters, gradient, lr);
  // moved_ gathers what this rule does to the parameters. What exchanges do to them in between
  // stays out of it, or the slow momentum would repeat the averaging, too.
  kernels::combine(moved_.size(), moved_.data(), 1.0F, parameters.data(), -1.0F);
  apply_rule(parameters, gradient, lr);
  kernels::combine(moved_.size(), moved_.data(), 1.0F, parameters.data(), 1.0F);
  if (steps_ % config_.slow_every != 0 || lr == 0) return;
  kernels::slow_momentum(moved_.size(), parameters.data(), moved_.data(), slow_.data(),
                         static_cast<float>(config_.slow_momentum), lr);
}

void UpdateRule::apply_rule(std::span<float> parameters, std::span<const float> gradient,
                            float lr) {
  ++steps_;
  const float scale = clip_factor(gradient, config_.clip);
  float* const p = parameters.data();
  const float* const g = gradient.data();
  for (const Group& group : groups_) {
    if (group.rule == Optimizer::sgd) {
      const kernels::SgdFactors factors{
          .scale = scale,
          .lr = lr,
          .momentum = static_cast<float>(config_.momentum),
          .decay = group.decays ? static_cast<float>(config_.weight_decay) : 0.0F};
      const auto update = config_.nesterov ? kernels::nesterov_sgd : kernels::sgd;
      update(group.size, p + group.offset, g + group.offset, &first_[group.offset], factors);
    } else if (group.rule == Optimizer::adamw) {
      const double part = config_.optimizer == Optimizer::muon ? config_.adam_lr / config_.lr : 1.0;
      apply_adamw(group, p, g, scale, part * static_cast<double>(lr));
    }
  }
  for (const Matrix& matrix : matrices_) {
    apply_muon(matrix, p, g, scale, static_cast<double>(lr));
  }
}

void UpdateRule::apply_adamw(const Group& group, float* parameters, const float* gradient,
                             float scale, double lr) {
  const auto t = static_cast<double>(steps_);
  const kernels::AdamFactors factors{
      .scale = scale,
      .keep = static_cast<float>(1.0 - lr * (group.decays ? config_.weight_decay : 0.0)),
      .beta1 = static_cast<float>(config_.beta1),
      .beta2 = static_cast<float>(config_.beta2),
      .step = static_cast<float>(lr / (1.0 - std::pow(config_.beta1, t))),
      .root_scale = static_cast<float>(1.0 / std::sqrt(1.0 - std::pow(config_.beta2, t))),
      .epsilon = static_cast<float>(config_.epsilon)};
  kernels::adamw(group.size, parameters + group.offset, gradient + group.offset,
                 &first_[group.offset], &second_[square_at(group.offset)], factors);
}

void UpdateRule::apply_muon(const Matrix& matrix, float* parameters, const float* gradient,
                            float scale, double lr) {
  const std::size_t size = matrix.rows * matrix.cols;
  const std::span<float> update = std::span(update_).first(size);
  kernels::moving_mean(size, gradient + matrix.offset, &first_[matrix.offset], update.data(), scale,
                       static_cast<float>(config_.momentum), config_.nesterov);
  newton_schulz_->orthogonalise(update, matrix.rows, matrix.cols);
  const double shape = static_cast<double>(matrix.rows) / static_cast<double>(matrix.cols);
  kernels::combine(size, parameters + matrix.offset,
                   static_cast<float>(1.0 - lr * config_.weight_decay), update.data(),
                   static_cast<float>(-lr * std::sqrt(std::max(1.0, shape))));
}

/// Where in second_ the squares of the parameter at `offset` lie.
std::size_t UpdateRule::square_at(std::size_t offset) const {
  std::size_t at = 0;
  for (const Group& group : groups_) {
    if (offset < group.offset + group.size) return at + (offset - group.offset);
    at += group.rule == Optimizer::adamw ? group.size : 0;
  }
  return at;
}

std::vector<UpdateRule::State> UpdateRule::state() {
  std::vector<State> state;
  for (const compute::Tensor& tensor : tensors_) {
    const auto first = std::span(first_).subspan(tensor.offset, tensor.size);
    const auto group = std::ranges::upper_bound(groups_, tensor.offset, {}, &Group::offset) - 1;
    if (group->rule == Optimizer::adamw) {
      const auto second = std::span(second_).subspan(square_at(tensor.offset), tensor.size);
      state.push_back({tensor.name + ".mean", tensor.shape, first});
      state.push_back({tensor.name + ".square", tensor.shape, second});
    } else {
      state.push_back({tensor.name + ".momentum", tensor.shape, first});
    }
    if (config_.slow_every > 0) {
      state.push_back({tensor.name + ".moved", tensor.shape,
                       std::span(moved_).subspan(tensor.offset, tensor.size)});
      state.push_back({tensor.name + ".slow", tensor.shape,
                       std::span(slow_).subspan(tensor.offset, tensor.size)});
    }
  }
  return state;
}

base::Status UpdateRule::restore(const TensorFile& file, std::uint64_t steps) {
  const std::vector<State> wanted = state();
  for (const State& piece : wanted) {
    const auto entry = std::ranges::find(file.entries(), piece.name, &TensorEntry::name);
    if (entry == file.entries().end() || entry->shape != piece.shape ||
        entry->type != TensorType::f32) {
      return base::fail(
          base::ErrorCode::data,
          "{}: is the state of another optimizer or model: it has no '{}' of shape {}", file.name(),
          piece.name, compute::to_string(piece.shape));
    }
  }
  for (const State& piece : wanted) {
    if (auto copied = file.copy(piece.name, piece.shape, piece.values); !copied) return copied;
  }
  steps_ = steps;
  return {};
}

std::size_t UpdateRule::memory_bytes() const noexcept {
  return (first_.size() + second_.size() + update_.size() + moved_.size() + slow_.size()) *
             sizeof(float) +
         (newton_schulz_ ? newton_schulz_->memory_bytes() : 0);
}

}  // namespace starling::train
