#include "compute/cpu/norm.hpp"

#include <algorithm>
#include <cmath>

#include "compute/cpu/kernel.hpp"

namespace starling::compute::cpu {

namespace {

STARLING_KERNEL
void forward_part(const RowNorm& norm, std::size_t first, std::size_t last, const float* x,
                  const float* weight, const float* bias, float* y, float* figures) {
  const std::size_t width = norm.width;
  const float share = 1.0F / static_cast<float>(width);
  for (std::size_t r = first; r < last; ++r) {
    const float* const from = x + r * width;
    float* const to = y + r * width;
    float mean = 0;
    if (norm.centred) {
#pragma omp simd reduction(+ : mean)
      for (std::size_t i = 0; i < width; ++i) mean += from[i];
      mean *= share;
    }
    float square = 0;
#pragma omp simd reduction(+ : square)
    for (std::size_t i = 0; i < width; ++i) square += (from[i] - mean) * (from[i] - mean);
    const float scale = 1.0F / std::sqrt(square * share + norm.epsilon);
    if (bias != nullptr) {
#pragma omp simd
      for (std::size_t i = 0; i < width; ++i) {
        to[i] = (from[i] - mean) * scale * weight[i] + bias[i];
      }
    } else {
#pragma omp simd
      for (std::size_t i = 0; i < width; ++i) to[i] = (from[i] - mean) * scale * weight[i];
    }
    figures[2 * r] = mean;
    figures[2 * r + 1] = scale;
  }
}

STARLING_KERNEL
void weights_part(const RowNorm& norm, std::size_t first, std::size_t last, const float* x,
                  const float* figures, const float* dy, float* dweight, float* dbias) {
  std::fill(dweight + first, dweight + last, 0.0F);
  if (dbias != nullptr) std::fill(dbias + first, dbias + last, 0.0F);
  for (std::size_t r = 0; r < norm.rows; ++r) {
    const float* const from = x + r * norm.width;
    const float* const gradient = dy + r * norm.width;
    const float mean = figures[2 * r];
    const float scale = figures[2 * r + 1];
#pragma omp simd
    for (std::size_t i = first; i < last; ++i) {
      dweight[i] += gradient[i] * ((from[i] - mean) * scale);
    }
    if (dbias == nullptr) continue;
#pragma omp simd
    for (std::size_t i = first; i < last; ++i) dbias[i] += gradient[i];
  }
}

// With h = (x - mean) * scale and g = dy * weight: dx = scale (g - mean(g) - h mean(g h)); RMS norm
// has no mean(g).
STARLING_KERNEL
void source_part(const RowNorm& norm, std::size_t first, std::size_t last, const float* x,
                 const float* weight, const float* figures, const float* dy, float* dx) {
  const std::size_t width = norm.width;
  const float share = 1.0F / static_cast<float>(width);
  for (std::size_t r = first; r < last; ++r) {
    const float* const from = x + r * width;
    const float* const gradient = dy + r * width;
    float* const to = dx + r * width;
    const float mean = figures[2 * r];
    const float scale = figures[2 * r + 1];
    float sum = 0;
    float product = 0;
#pragma omp simd reduction(+ : sum, product)
    for (std::size_t i = 0; i < width; ++i) {
      const float g = gradient[i] * weight[i];
      sum += g;
      product += g * ((from[i] - mean) * scale);
    }
    sum = norm.centred ? sum * share : 0.0F;
    product *= share;
#pragma omp simd
    for (std::size_t i = 0; i < width; ++i) {
      const float h = (from[i] - mean) * scale;
      to[i] = scale * (gradient[i] * weight[i] - sum - h * product);
    }
  }
}

}  // namespace

void row_norm(const RowNorm& norm, const float* x, const float* weight, const float* bias, float* y,
              float* figures) {
  in_parallel(norm.rows, kGrain / norm.width + 1, [&](std::size_t first, std::size_t last) {
    forward_part(norm, first, last, x, weight, bias, y, figures);
  });
}

void row_norm_backward(const RowNorm& norm, const float* x, const float* weight,
                       const float* figures, const float* dy, float* dx, float* dweight,
                       float* dbias) {
  // The weights' gradients first: dx may overwrite dy.
  in_parallel(norm.width, kGrain / norm.rows + 1, [&](std::size_t first, std::size_t last) {
    weights_part(norm, first, last, x, figures, dy, dweight, dbias);
  });
  in_parallel(norm.rows, kGrain / norm.width + 1, [&](std::size_t first, std::size_t last) {
    source_part(norm, first, last, x, weight, figures, dy, dx);
  });
}

}  // namespace starling::compute::cpu
