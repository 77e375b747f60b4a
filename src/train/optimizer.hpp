// From gradients to parameters: momentum SGD, AdamW and Muon over the flat vector.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "compute/graph.hpp"
#include "compute/resident.hpp"
#include "train/config.hpp"
#include "train/groups.hpp"
#include "train/newton_schulz.hpp"
#include "train/safetensors.hpp"

namespace starling::train {

/// The update rule that a run file names, with its state. One thread at a time.
///
/// First the gradient is clipped: if its norm over all parameters is above config.clip, it is
/// scaled to that norm. `decay` is config.weight_decay where it applies (see make_groups),
/// otherwise 0.
///
/// sgd, like PyTorch's without dampening (Sutskever et al., ICML 2013):
///     g += decay * p;  v = momentum * v + g
///     p -= lr * v, or with Nesterov's momentum p -= lr * (g + momentum * v)
/// adamw (Loshchilov and Hutter, arXiv:1711.05101), at step t = 1, 2, ...:
///     p *= 1 - lr * decay;  m = beta1 m + (1 - beta1) g;  s = beta2 s + (1 - beta2) g^2
///     p -= lr / (1 - beta1^t) * m / (sqrt(s / (1 - beta2^t)) + epsilon)
/// muon (Jordan et al., kellerjordan.github.io/posts/muon), for each of hidden_matrices():
///     m = momentum * m + (1 - momentum) g;  u = m, or with Nesterov's momentum
///     u = momentum * m + (1 - momentum) g
///     p *= 1 - lr * decay;  p -= lr * sqrt(max(1, rows / cols)) * NewtonSchulz(u)
///   and adamw for all other parameters, with config.adam_lr / config.lr of the learning rate.
class UpdateRule {
 public:
  /// A piece of the state: it belongs to a tensor of the model and has its shape.
  struct State {
    std::string
        name;  ///< "layers.0.weight.momentum" of sgd and muon, ".mean" and ".square" of adamw
    compute::Shape shape;
    std::span<float> values;  ///< lives as long as the rule, or until free_copy()
  };

  UpdateRule(const Config& config, const compute::Graph& graph);

  /// One step in place; allocates nothing. Both spans have the graph's parameter_count elements.
  void apply(std::span<float> parameters, std::span<const float> gradient, float lr);

  /// The rule's needs in a device's memory; nothing if can_train_on_device() is false.
  [[nodiscard]] std::optional<compute::Residence> residence() const;
  /// From now on steps are those of a replica in a device's memory, which outlives this; the state
  /// goes there, too.
  [[nodiscard]] base::Status move_to(compute::Resident& resident);
  /// The figures of the next step there; count_step() reports that it was done.
  [[nodiscard]] compute::Update next_update(float lr) const;
  void count_step() noexcept { ++steps_; }

  /// The state, tensor by tensor, to be saved, or overwritten if it has not moved to a device. If
  /// it has, this makes a copy here, which free_copy() frees. Error (ErrorCode::device): it lies on
  /// a device that failed.
  [[nodiscard]] base::Result<std::vector<State>> state();
  /// Ends the life of the result of state(), if it was a copy.
  void free_copy() noexcept;
  /// Steps so far: AdamW's t. Belongs to the state.
  [[nodiscard]] std::uint64_t steps() const noexcept { return steps_; }
  /// Takes the state from a checkpoint's optimizer file. Error (ErrorCode::data): the file holds
  /// the state of another optimizer or model; then nothing has changed.
  [[nodiscard]] base::Status restore(const TensorFile& file, std::uint64_t steps);

  /// Bytes of state and work space on the host.
  [[nodiscard]] std::size_t memory_bytes() const noexcept;

 private:
  [[nodiscard]] float scale_of(std::span<const float> gradient) const;
  [[nodiscard]] compute::SgdUpdate sgd_update(float lr) const;
  [[nodiscard]] compute::AdamUpdate adam_update(double lr) const;
  void apply_muon(const Matrix& matrix, float* parameters, const float* gradient, float scale,
                  double lr);
  std::size_t square_at(std::size_t offset) const;
  [[nodiscard]] base::Status read_state();

  const Config config_;
  std::vector<compute::Tensor> tensors_;
  std::vector<Group> groups_;
  std::vector<Matrix> matrices_;  ///< of muon
  std::vector<float> first_;      ///< sgd, muon: momentum; adamw: mean of the gradients
  std::vector<float> second_;     ///< adamw: mean of their squares, only for its groups
  std::vector<float> update_;     ///< muon: of one matrix
  std::optional<NewtonSchulz> newton_schulz_;
  compute::Resident* resident_ = nullptr;  ///< has the state
  std::uint64_t steps_ = 0;
};

/// Whether a checkpoint's file can hold the state of such a rule: see check_tensors(). Allocates no
/// state.
[[nodiscard]] base::Status check_state(const Config& config, const compute::Graph& graph);

}  // namespace starling::train
