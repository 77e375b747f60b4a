// From gradients to parameters: momentum SGD and AdamW over the flat vector.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "train/config.hpp"

namespace starling::train {

/// The update rule that a run file names, with its state. One thread at a time.
///
/// sgd, as PyTorch's without dampening (Sutskever et al., ICML 2013):
///     g += weight_decay * p;  v = momentum * v + g
///     p -= lr * v, or with Nesterov's momentum p -= lr * (g + momentum * v)
/// adamw (Loshchilov and Hutter, arXiv:1711.05101), at step t = 1, 2, ...:
///     p *= 1 - lr * weight_decay;  m = beta1 m + (1 - beta1) g;  s = beta2 s + (1 - beta2) g^2
///     p -= lr / (1 - beta1^t) * m / (sqrt(s / (1 - beta2^t)) + epsilon)
class UpdateRule {
 public:
  /// A vector of state, one element a parameter, under the name that checkpoints give it.
  struct Slot {
    std::string_view name;  ///< "momentum"; "mean" and "square"
    std::span<float> values;
  };

  UpdateRule(const Config& config, std::size_t parameters);

  /// One step in place. Both spans have as many elements as the rule was made for.
  void apply(std::span<float> parameters, std::span<const float> gradient, float lr);

  /// The state, to be saved or overwritten; the spans live as long as this object.
  [[nodiscard]] std::vector<Slot> slots();
  /// Steps so far: AdamW's t. Belongs to the state.
  [[nodiscard]] std::uint64_t steps() const noexcept { return steps_; }
  void set_steps(std::uint64_t steps) noexcept { steps_ = steps; }

 private:
  const Config config_;
  std::vector<float> first_;   ///< sgd: momentum; adamw: mean of the gradients
  std::vector<float> second_;  ///< adamw: mean of their squares
  std::uint64_t steps_ = 0;
};

}  // namespace starling::train
