// The loops of the update rules: plain, over memory that does not overlap, so that the compiler
// vectorises them. Single float operations element by element in one order: the same bits on every
// processor. A mean (v, m, s, u) that has faded (base/faded.hpp) becomes 0.
#pragma once

#include <cstddef>
#include <span>

#include "compute/update.hpp"

namespace starling::train::kernels {

/// g is scaled, decay * p added where it decays;  v = momentum * v + g;  p -= lr * v, or with
/// Nesterov's momentum lr * (g + momentum * v).
void sgd(std::size_t n, float* p, const float* g, float* v, const compute::SgdUpdate& by,
         float scale, bool decays);

/// g is scaled;  m = beta1 m + (1 - beta1) g;  s = beta2 s + (1 - beta2) g^2
/// p = keep * p - step * m / (root_scale * sqrt(s) + epsilon), keep = 1 where it does not decay
void adamw(std::size_t n, float* p, const float* g, float* m, float* s,
           const compute::AdamUpdate& by, float scale, bool decays);

/// m = momentum * m + (1 - momentum) * scale * g;  u = m, or with Nesterov's momentum
/// momentum * m + (1 - momentum) * scale * g.
void moving_mean(std::size_t n, const float* g, float* m, float* u, float scale, float momentum,
                 bool nesterov);

/// v *= factor.
void scale(std::size_t n, float* v, float factor);
/// v = keep * v + factor * w.
void combine(std::size_t n, float* v, float keep, const float* w, float factor);

/// Whether no value is infinite or NaN.
[[nodiscard]] bool all_finite(std::span<const float> values) noexcept;

/// In double precision, in one order on every processor. Finite if all values are.
[[nodiscard]] double sum_of_squares(const float* v, std::size_t n) noexcept;

}  // namespace starling::train::kernels
