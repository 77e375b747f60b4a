// The figures of one step of an update rule beside the gradient; train/optimizer.hpp has the rules.
#pragma once

#include <cstdint>

namespace starling::compute {

struct SgdUpdate {
  float lr = 0;
  float momentum = 0;
  float decay = 0;  ///< of parameters that decay
  bool nesterov = false;
};

struct AdamUpdate {
  float keep_decayed = 1;  ///< 1 - lr * weight decay, of parameters that decay
  float beta1 = 0;
  float beta2 = 0;
  float step = 0;        ///< lr / (1 - beta1^t)
  float root_scale = 0;  ///< 1 / sqrt(1 - beta2^t)
  float epsilon = 0;
};

/// The rules that devices have.
enum class UpdateKind : std::uint8_t { none, sgd, adamw };

/// One step of either.
struct Update {
  double clip = 0;  ///< the largest norm of a gradient; 0: any
  SgdUpdate sgd{};
  AdamUpdate adamw{};
};

/// The factor that brings a gradient of this norm down to the allowed norm.
[[nodiscard]] constexpr float clip_factor(double norm, double clip) noexcept {
  return clip > 0 && norm > clip ? static_cast<float>(clip / norm) : 1.0F;
}

}  // namespace starling::compute
