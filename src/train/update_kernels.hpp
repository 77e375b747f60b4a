// The loops of the update rules: plain, over memory that does not overlap, so that the compiler
// makes vector code of them. Single float operations element by element in one order: the same
// bits on every processor.
#pragma once

#include <cstddef>

namespace starling::train::kernels {

struct SgdFactors {
  float scale;  ///< of the gradient
  float lr;
  float momentum;
  float decay;
};

/// g is scaled, decay * p added;  v = momentum * v + g;  p -= lr * v.
void sgd(std::size_t n, float* p, const float* g, float* v, const SgdFactors& factors);
/// The same with p -= lr * (g + momentum * v).
void nesterov_sgd(std::size_t n, float* p, const float* g, float* v, const SgdFactors& factors);

struct AdamFactors {
  float scale;  ///< of the gradient
  float keep;   ///< 1 - lr * weight decay
  float beta1;
  float beta2;
  float step;        ///< lr / (1 - beta1^t)
  float root_scale;  ///< 1 / sqrt(1 - beta2^t)
  float epsilon;
};

/// m = beta1 m + (1 - beta1) g;  s = beta2 s + (1 - beta2) g^2
/// p = keep * p - step * m / (root_scale * sqrt(s) + epsilon)
void adamw(std::size_t n, float* p, const float* g, float* m, float* s, const AdamFactors& factors);

/// m = momentum * m + (1 - momentum) * scale * g;  u = m, or with Nesterov's momentum
/// momentum * m + (1 - momentum) * scale * g.
void moving_mean(std::size_t n, const float* g, float* m, float* u, float scale, float momentum,
                 bool nesterov);

/// s = momentum * u;  u = s - moved / lr;  p -= lr * s;  moved = 0.
void slow_momentum(std::size_t n, float* p, float* moved, float* u, float momentum, float lr);

/// v *= factor.
void scale(std::size_t n, float* v, float factor);
/// v = keep * v + factor * w.
void combine(std::size_t n, float* v, float keep, const float* w, float factor);

/// In double precision, in one order on every processor. Finite if all values are.
[[nodiscard]] double sum_of_squares(const float* v, std::size_t n) noexcept;

}  // namespace starling::train::kernels
