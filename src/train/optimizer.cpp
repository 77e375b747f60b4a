#include "train/optimizer.hpp"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "base/assert.hpp"
#include "train/update_kernels.hpp"

namespace starling::train {
namespace {

// The ends of the state's names in checkpoints, after the tensor's name.
constexpr std::string_view kMomentum = ".momentum";
constexpr std::string_view kMean = ".mean";
constexpr std::string_view kSquare = ".square";

std::vector<std::string_view> kept_of(Optimizer rule) {
  if (rule == Optimizer::adamw) return {kMean, kSquare};
  return {kMomentum};
}

const Group& group_of(const std::vector<Group>& groups, const compute::Tensor& tensor) {
  return *(std::ranges::upper_bound(groups, tensor.offset, {}, &Group::offset) - 1);
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
  const float scale = scale_of(gradient);
  float* const p = parameters.data();
  const float* const g = gradient.data();
  const double part = config_.optimizer == Optimizer::muon ? config_.adam_lr / config_.lr : 1.0;
  const compute::SgdUpdate by_sgd = sgd_update(lr);
  const compute::AdamUpdate by_adam = adam_update(part * static_cast<double>(lr));
  for (const Group& group : groups_) {
    const std::size_t at = group.offset;
    if (group.rule == Optimizer::sgd) {
      kernels::sgd(group.size, p + at, g + at, &first_[at], by_sgd, scale, group.decays);
    } else if (group.rule == Optimizer::adamw) {
      kernels::adamw(group.size, p + at, g + at, &first_[at], &second_[square_at(at)], by_adam,
                     scale, group.decays);
    }
  }
  for (const Matrix& matrix : matrices_) {
    apply_muon(matrix, p, g, scale, static_cast<double>(lr));
  }
  ++steps_;
}

// The factor that clips a gradient; without a limit, the gradient is not read.
float UpdateRule::scale_of(std::span<const float> gradient) const {
  if (config_.clip == 0) return 1.0F;
  const double squares = kernels::sum_of_squares(gradient.data(), gradient.size());
  return compute::clip_factor(std::sqrt(squares), config_.clip);
}

// The next step's update, like all of them.
compute::SgdUpdate UpdateRule::sgd_update(float lr) const {
  return {.lr = lr,
          .momentum = static_cast<float>(config_.momentum),
          .decay = static_cast<float>(config_.weight_decay),
          .nesterov = config_.nesterov};
}

compute::AdamUpdate UpdateRule::adam_update(double lr) const {
  const auto t = static_cast<double>(steps_ + 1);
  return {.keep_decayed = static_cast<float>(1.0 - lr * config_.weight_decay),
          .beta1 = static_cast<float>(config_.beta1),
          .beta2 = static_cast<float>(config_.beta2),
          .step = static_cast<float>(lr / (1.0 - std::pow(config_.beta1, t))),
          .root_scale = static_cast<float>(1.0 / std::sqrt(1.0 - std::pow(config_.beta2, t))),
          .epsilon = static_cast<float>(config_.epsilon)};
}

std::optional<compute::Residence> UpdateRule::residence() const {
  if (!can_train_on_device(config_)) return {};
  compute::Residence wanted{.update = config_.optimizer == Optimizer::adamw
                                          ? compute::UpdateKind::adamw
                                          : compute::UpdateKind::sgd};
  for (const compute::Tensor& tensor : tensors_) {
    wanted.decays.push_back(group_of(groups_, tensor).decays);
  }
  return wanted;
}

base::Status UpdateRule::move_to(compute::Resident& resident) {
  ASSERT(can_train_on_device(config_) && resident_ == nullptr);
  if (steps_ > 0) {  // otherwise it is zero on both sides
    auto written = resident.write_state(0, first_);
    if (written && !second_.empty()) written = resident.write_state(1, second_);
    if (!written) return written;
  }
  resident_ = &resident;
  free_copy();
  return {};
}

void UpdateRule::free_copy() noexcept {
  if (resident_ == nullptr) return;
  first_ = {};
  second_ = {};
}

compute::Update UpdateRule::next_update(float lr) const {
  ASSERT(resident_ != nullptr);
  return {
      .clip = config_.clip, .sgd = sgd_update(lr), .adamw = adam_update(static_cast<double>(lr))};
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

// The place in second_ of the squares of the parameter at `offset`.
std::size_t UpdateRule::square_at(std::size_t offset) const {
  std::size_t at = 0;
  for (const Group& group : groups_) {
    if (offset < group.offset + group.size) return at + (offset - group.offset);
    at += group.rule == Optimizer::adamw ? group.size : 0;
  }
  return at;
}

// State on a device is copied back to be read.
base::Status UpdateRule::read_state() {
  const std::size_t n = groups_.back().offset + groups_.back().size;
  first_.resize(n);
  auto read = resident_->read_state(0, first_);
  if (!read || config_.optimizer == Optimizer::sgd) return read;
  second_.resize(n);
  return resident_->read_state(1, second_);
}

base::Result<std::vector<UpdateRule::State>> UpdateRule::state() {
  if (resident_ != nullptr) {
    if (auto read = read_state(); !read) return base::fail(read.error());
  }
  std::vector<State> state;
  for (const compute::Tensor& tensor : tensors_) {
    for (const std::string_view kept : kept_of(group_of(groups_, tensor).rule)) {
      const std::span<float> values = kept == kSquare ? std::span(second_) : std::span(first_);
      const std::size_t at = kept == kSquare ? square_at(tensor.offset) : tensor.offset;
      state.push_back(
          {tensor.name + std::string(kept), tensor.shape, values.subspan(at, tensor.size)});
    }
  }
  return state;
}

base::Status UpdateRule::restore(const TensorFile& file, std::uint64_t steps) {
  ASSERT(resident_ == nullptr);
  auto pieces = state();
  if (!pieces) return base::fail(pieces.error());
  const std::vector<State>& wanted = *pieces;
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

base::Status check_state(const Config& config, const compute::Graph& graph) {
  const std::vector<Group> groups = make_groups(graph, config);
  std::vector<TensorView> views;
  for (const compute::Tensor& tensor : graph.tensors) {
    for (const std::string_view kept : kept_of(group_of(groups, tensor).rule)) {
      views.push_back({tensor.name + std::string(kept), tensor.shape, std::span<const float>()});
    }
  }
  return check_tensors(views);
}

std::size_t UpdateRule::memory_bytes() const noexcept {
  return (first_.size() + second_.size() + update_.size()) * sizeof(float) +
         (newton_schulz_ ? newton_schulz_->memory_bytes() : 0);
}

}  // namespace starling::train
