#include "train/update_kernels.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "base/clones.hpp"
#include "base/faded.hpp"

namespace starling::train::kernels {

namespace {

using base::unless_faded;

STARLING_CLONES
void plain_sgd(std::size_t n, float* __restrict p, const float* __restrict g, float* __restrict v,
               const compute::SgdUpdate& by, float scale, float decay) {
  const compute::SgdUpdate f = by;
  for (std::size_t i = 0; i < n; ++i) {
    v[i] = unless_faded(f.momentum * v[i] + (scale * g[i] + decay * p[i]));
    p[i] -= f.lr * v[i];
  }
}

STARLING_CLONES
void nesterov_sgd(std::size_t n, float* __restrict p, const float* __restrict g,
                  float* __restrict v, const compute::SgdUpdate& by, float scale, float decay) {
  const compute::SgdUpdate f = by;
  for (std::size_t i = 0; i < n; ++i) {
    const float d = scale * g[i] + decay * p[i];
    v[i] = unless_faded(f.momentum * v[i] + d);
    p[i] -= f.lr * (d + f.momentum * v[i]);
  }
}

}  // namespace

void sgd(std::size_t n, float* p, const float* g, float* v, const compute::SgdUpdate& by,
         float scale, bool decays) {
  (by.nesterov ? nesterov_sgd : plain_sgd)(n, p, g, v, by, scale, decays ? by.decay : 0.0F);
}

STARLING_CLONES
void adamw(std::size_t n, float* __restrict p, const float* __restrict g, float* __restrict m,
           float* __restrict s, const compute::AdamUpdate& by, float scale, bool decays) {
  const compute::AdamUpdate f = by;
  const float keep = decays ? f.keep_decayed : 1.0F;
  for (std::size_t i = 0; i < n; ++i) {
    const float d = scale * g[i];
    m[i] = unless_faded(f.beta1 * m[i] + (1.0F - f.beta1) * d);
    s[i] = unless_faded(f.beta2 * s[i] + (1.0F - f.beta2) * (d * d));
    p[i] = p[i] * keep - f.step * m[i] / (std::sqrt(s[i]) * f.root_scale + f.epsilon);
  }
}

STARLING_CLONES
void moving_mean(std::size_t n, const float* __restrict g, float* __restrict m, float* __restrict u,
                 float scale, float momentum, bool nesterov) {
  const float share = (1.0F - momentum) * scale;
  const float ahead = nesterov ? momentum : 1.0F;
  const float direct = nesterov ? share : 0.0F;
  for (std::size_t i = 0; i < n; ++i) {
    m[i] = unless_faded(momentum * m[i] + share * g[i]);
    u[i] = ahead * m[i] + direct * g[i];
  }
}

STARLING_CLONES
void scale(std::size_t n, float* v, float factor) {
  for (std::size_t i = 0; i < n; ++i) v[i] *= factor;
}

STARLING_CLONES
void combine(std::size_t n, float* __restrict v, float keep, const float* __restrict w,
             float factor) {
  for (std::size_t i = 0; i < n; ++i) v[i] = keep * v[i] + factor * w[i];
}

// Over the integer bits, which vectorises: an exponent of all ones means infinite or NaN.
STARLING_CLONES
bool all_finite(std::span<const float> values) noexcept {
  std::uint32_t largest = 0;
  for (const float value : values) {
    largest = std::max(largest, std::bit_cast<std::uint32_t>(value) & 0x7fffffffU);
  }
  return largest < 0x7f800000U;
}

STARLING_CLONES
double sum_of_squares(const float* v, std::size_t n) noexcept {
  // Sums side by side that the compiler keeps in vectors; each adds every kLanes-th element.
  constexpr std::size_t kLanes = 16;
  double sums[kLanes] = {};
  const std::size_t whole = n / kLanes * kLanes;
  for (std::size_t i = 0; i < whole; i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const auto value = static_cast<double>(v[i + lane]);
      sums[lane] += value * value;
    }
  }
  for (std::size_t i = whole; i < n; ++i) {
    const auto value = static_cast<double>(v[i]);
    sums[i - whole] += value * value;
  }
  double total = 0;
  for (const double sum : sums) total += sum;
  return total;
}

}  // namespace starling::train::kernels
