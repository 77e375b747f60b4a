#include "compute/cpu/elementwise.hpp"

#include <algorithm>
#include <cmath>

#include "compute/cpu/kernel.hpp"
#include "compute/dropout.hpp"

namespace starling::compute::cpu {

namespace {

/// Phi(x), the normal distribution: the error function by Abramowitz and Stegun's 7.1.26, which
/// is within 1.5e-7. `density` becomes exp(-x^2 / 2).
STARLING_INLINE float normal(float x, float& density) noexcept {
  const float z = (x < 0 ? -x : x) * 0.70710678F;
  density = exp_of(-z * z);
  const float t = 1.0F / (1.0F + 0.3275911F * z);
  float p = 1.061405429F;
  p = p * t - 1.453152027F;
  p = p * t + 1.421413741F;
  p = p * t - 0.284496736F;
  p = p * t + 0.254829592F;
  const float tail = 0.5F * p * t * density;  // 1 - Phi(|x|)
  return x < 0 ? tail : 1.0F - tail;
}

/// At least 4e-18. The compiler computes the branch beyond a bound in every lane, and with a
/// subnormal number there, each product would take a hundred cycles.
STARLING_INLINE float logistic(float x) noexcept {
  return 1.0F / (1.0F + exp_between(std::min(std::max(-x, -40.0F), 40.0F)));
}

constexpr float kTanhScale = 1.59576912F;  // 2 sqrt(2 / pi): tanh(u / 2) = 2 logistic(u) - 1
constexpr float kTanhCube = 0.044715F;

struct Relu {
  static STARLING_INLINE float value(float x) noexcept { return x < 0 ? 0.0F : x; }
  static STARLING_INLINE float slope(float x) noexcept { return x > 0 ? 1.0F : 0.0F; }
};
struct Gelu {
  static STARLING_INLINE float value(float x) noexcept {
    float density;
    return x * normal(x, density);
  }
  static STARLING_INLINE float slope(float x) noexcept {
    float density;
    const float below = normal(x, density);
    return below + x * 0.39894228F * density;
  }
};
struct GeluTanh {
  static STARLING_INLINE float value(float x) noexcept {
    return x * logistic(kTanhScale * (x + kTanhCube * x * x * x));
  }
  static STARLING_INLINE float slope(float x) noexcept {
    // Beyond 16 it is 0 or 1, but the bound of logistic() times powers of x is not.
    x = std::min(std::max(x, -16.0F), 16.0F);
    const float s = logistic(kTanhScale * (x + kTanhCube * x * x * x));
    return s + x * s * (1.0F - s) * kTanhScale * (1.0F + 3.0F * kTanhCube * x * x);
  }
};
struct Silu {
  static STARLING_INLINE float value(float x) noexcept { return x * logistic(x); }
  static STARLING_INLINE float slope(float x) noexcept {
    x = std::min(std::max(x, -40.0F), 40.0F);  // as above
    const float s = logistic(x);
    return s + x * s * (1.0F - s);
  }
};

template <class Function>
STARLING_INLINE void map(std::size_t count, const float* x, float* y) {
#pragma omp simd
  for (std::size_t i = 0; i < count; ++i) y[i] = Function::value(x[i]);
}

template <class Function>
STARLING_INLINE void map_backward(std::size_t count, const float* x, const float* dy, float* dx) {
#pragma omp simd
  for (std::size_t i = 0; i < count; ++i) dx[i] = Function::slope(x[i]) * dy[i];
}

STARLING_KERNEL
void activate_part(ActivationKind kind, std::size_t count, const float* x, float* y) {
  switch (kind) {
    case ActivationKind::relu:
      return map<Relu>(count, x, y);
    case ActivationKind::gelu:
      return map<Gelu>(count, x, y);
    case ActivationKind::gelu_tanh:
      return map<GeluTanh>(count, x, y);
    case ActivationKind::silu:
      return map<Silu>(count, x, y);
  }
}

STARLING_KERNEL
void activate_backward_part(ActivationKind kind, std::size_t count, const float* x, const float* dy,
                            float* dx) {
  switch (kind) {
    case ActivationKind::relu:
      return map_backward<Relu>(count, x, dy, dx);
    case ActivationKind::gelu:
      return map_backward<Gelu>(count, x, dy, dx);
    case ActivationKind::gelu_tanh:
      return map_backward<GeluTanh>(count, x, dy, dx);
    case ActivationKind::silu:
      return map_backward<Silu>(count, x, dy, dx);
  }
}

STARLING_KERNEL
void swiglu_part(std::size_t rows, std::size_t width, const float* x, float* y) {
  for (std::size_t r = 0; r < rows; ++r, x += 2 * width, y += width) {
#pragma omp simd
    for (std::size_t i = 0; i < width; ++i) y[i] = Silu::value(x[i]) * x[width + i];
  }
}

STARLING_KERNEL
void swiglu_backward_part(std::size_t rows, std::size_t width, const float* x, const float* dy,
                          float* dx) {
  for (std::size_t r = 0; r < rows; ++r, x += 2 * width, dx += 2 * width, dy += width) {
#pragma omp simd
    for (std::size_t i = 0; i < width; ++i) {
      const float a = x[i];
      const float b = x[width + i];
      const float gradient = dy[i];
      dx[i] = Silu::slope(a) * b * gradient;
      dx[width + i] = Silu::value(a) * gradient;
    }
  }
}

STARLING_KERNEL
void add_part(std::size_t count, const float* a, const float* b, float* to, float least) {
#pragma omp simd
  for (std::size_t i = 0; i < count; ++i) {
    const float sum = a[i] + b[i];
    to[i] = sum < least ? least : sum;
  }
}

STARLING_KERNEL
void drop_part(float keep, std::uint32_t threshold, std::uint64_t seed, std::uint64_t op,
               std::size_t first, std::size_t last, const float* x, float* y) {
  for (std::size_t i = first; i < last; ++i) {
    y[i] = dropout_bits(seed, op, i) < threshold ? 0.0F : x[i] * keep;
  }
}

STARLING_KERNEL
void sum_rows_part(std::size_t count, std::size_t row, std::size_t first, std::size_t last,
                   const float* dy, float* sum) {
  std::fill(sum + first, sum + last, 0.0F);
  for (std::size_t r = 0; r < count; ++r, dy += row) {
#pragma omp simd
    for (std::size_t i = first; i < last; ++i) sum[i] += dy[i];
  }
}

}  // namespace

void activate(ActivationKind kind, std::size_t count, const float* x, float* y) {
  in_parallel(count, kGrain, [&](std::size_t first, std::size_t last) {
    activate_part(kind, last - first, x + first, y + first);
  });
}

void activate_backward(ActivationKind kind, std::size_t count, const float* x, const float* dy,
                       float* dx) {
  in_parallel(count, kGrain, [&](std::size_t first, std::size_t last) {
    activate_backward_part(kind, last - first, x + first, dy + first, dx + first);
  });
}

void swiglu(std::size_t rows, std::size_t width, const float* x, float* y) {
  in_parallel(rows, kGrain / width + 1, [&](std::size_t first, std::size_t last) {
    swiglu_part(last - first, width, x + 2 * first * width, y + first * width);
  });
}

void swiglu_backward(std::size_t rows, std::size_t width, const float* x, const float* dy,
                     float* dx) {
  in_parallel(rows, kGrain / width + 1, [&](std::size_t first, std::size_t last) {
    swiglu_backward_part(last - first, width, x + 2 * first * width, dy + first * width,
                         dx + 2 * first * width);
  });
}

void add(std::size_t count, const float* a, const float* b, float* to, bool relu) {
  const float least = relu ? 0.0F : -INFINITY;
  in_parallel(count, kGrain, [&](std::size_t first, std::size_t last) {
    add_part(last - first, a + first, b + first, to + first, least);
  });
}

void drop(float rate, std::uint64_t seed, std::uint64_t op, std::size_t count, const float* x,
          float* y) {
  const float keep = 1.0F / (1.0F - rate);
  in_parallel(count, kGrain, [&](std::size_t first, std::size_t last) {
    drop_part(keep, dropout_threshold(rate), seed, op, first, last, x, y);
  });
}

void add_row(std::size_t count, std::size_t row, const float* x, const float* weight, float* y) {
  for (std::size_t r = 0; r < count; ++r) add(row, x + r * row, weight, y + r * row);
}

void sum_rows(std::size_t count, std::size_t row, const float* dy, float* dweight) {
  in_parallel(row, kGrain / count + 1, [&](std::size_t first, std::size_t last) {
    sum_rows_part(count, row, first, last, dy, dweight);
  });
}

void embed(std::size_t count, std::size_t width, const std::int32_t* tokens, const float* weight,
           float* y) {
  in_parallel(count, kGrain / width + 1, [&](std::size_t first, std::size_t last) {
    for (std::size_t i = first; i < last; ++i) {
      std::copy_n(weight + static_cast<std::size_t>(tokens[i]) * width, width, y + i * width);
    }
  });
}

// Threads divide the features, not the tokens: no two write to the same place, and the order of the
// sums does not depend on the number of threads.
void embed_backward(std::size_t count, std::size_t width, std::size_t vocabulary, bool accumulate,
                    const std::int32_t* tokens, const float* dy, float* dweight) {
  if (!accumulate) std::fill_n(dweight, vocabulary * width, 0.0F);
  in_parallel(width, kGrain / count + 1, [&](std::size_t first, std::size_t last) {
    for (std::size_t i = 0; i < count; ++i) {
      float* const row = dweight + static_cast<std::size_t>(tokens[i]) * width;
      for (std::size_t j = first; j < last; ++j) row[j] += dy[i * width + j];
    }
  });
}

}  // namespace starling::compute::cpu
