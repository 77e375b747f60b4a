#include "compute/cpu/max_pool.hpp"

#include <algorithm>

#include "base/clones.hpp"

namespace starling::compute::cpu {

namespace {

// The loops below are written once for any block; a constant block makes them vector code.
// Inlined into the cloned functions, so that they are compiled for each of their targets.
#define STARLING_INLINE inline __attribute__((always_inline))

STARLING_INLINE void forward_with(const MaxPoolShape& s, std::size_t block, bool after_relu,
                                  const float* source, float* result, std::int32_t* chosen) {
  for (std::size_t plane = 0; plane < s.planes; ++plane) {
    const float* const image = source + plane * s.height * s.width * block;
    for (std::size_t i = 0; i < s.out_height; ++i) {
      for (std::size_t j = 0; j < s.out_width; ++j, result += block, chosen += block) {
        const float* const window = image + (i * s.width + j) * s.stride * block;
        for (std::size_t b = 0; b < block; ++b) result[b] = window[b];
        for (std::size_t b = 0; b < block; ++b) chosen[b] = 0;
        for (std::size_t k = 1; k < s.kernel * s.kernel; ++k) {
          const float* const point = window + (k / s.kernel * s.width + k % s.kernel) * block;
          for (std::size_t b = 0; b < block; ++b) {
            const bool larger = point[b] > result[b];
            chosen[b] = larger ? static_cast<std::int32_t>(k) : chosen[b];
            result[b] = larger ? point[b] : result[b];
          }
        }
        if (!after_relu) continue;
        for (std::size_t b = 0; b < block; ++b) chosen[b] = result[b] > 0.0F ? chosen[b] : -1;
      }
    }
  }
}

STARLING_INLINE void backward_with(const MaxPoolShape& s, std::size_t block, const float* gradient,
                                   const std::int32_t* chosen, float* source_gradient) {
  for (std::size_t plane = 0; plane < s.planes; ++plane) {
    float* const image = source_gradient + plane * s.height * s.width * block;
    std::fill_n(image, s.height * s.width * block, 0.0F);
    for (std::size_t i = 0; i < s.out_height; ++i) {
      for (std::size_t j = 0; j < s.out_width; ++j, gradient += block, chosen += block) {
        float* const window = image + (i * s.width + j) * s.stride * block;
        for (std::size_t k = 0; k < s.kernel * s.kernel; ++k) {
          float* const point = window + (k / s.kernel * s.width + k % s.kernel) * block;
          for (std::size_t b = 0; b < block; ++b) {
            point[b] += chosen[b] == static_cast<std::int32_t>(k) ? gradient[b] : 0.0F;
          }
        }
      }
    }
  }
}

#undef STARLING_INLINE

}  // namespace

STARLING_CLONES
void max_pool_forward(const MaxPoolShape& shape, bool after_relu, const float* source,
                      float* result, std::int32_t* chosen) {
  if (shape.block == 8) return forward_with(shape, 8, after_relu, source, result, chosen);
  if (shape.block == 16) return forward_with(shape, 16, after_relu, source, result, chosen);
  forward_with(shape, shape.block, after_relu, source, result, chosen);
}

STARLING_CLONES
void max_pool_backward(const MaxPoolShape& shape, const float* result_gradient,
                       const std::int32_t* chosen, float* source_gradient) {
  if (shape.block == 8) {
    return backward_with(shape, 8, result_gradient, chosen, source_gradient);
  }
  if (shape.block == 16) {
    return backward_with(shape, 16, result_gradient, chosen, source_gradient);
  }
  backward_with(shape, shape.block, result_gradient, chosen, source_gradient);
}

}  // namespace starling::compute::cpu
