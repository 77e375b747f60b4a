// What one step of an update rule takes beside the gradient: train/optimizer.hpp has the rules.
#pragma once

namespace starling::compute {

struct SgdUpdate {
  float scale = 1;  ///< of the gradient
  float lr = 0;
  float momentum = 0;
  float decay = 0;  ///< of parameters that decay
  bool nesterov = false;
};

struct AdamUpdate {
  float scale = 1;         ///< of the gradient
  float keep_decayed = 1;  ///< 1 - lr * weight decay, of parameters that decay
  float beta1 = 0;
  float beta2 = 0;
  float step = 0;        ///< lr / (1 - beta1^t)
  float root_scale = 0;  ///< 1 / sqrt(1 - beta2^t)
  float epsilon = 0;
};

}  // namespace starling::compute
