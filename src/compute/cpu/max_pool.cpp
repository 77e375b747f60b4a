#include "compute/cpu/max_pool.hpp"

#include <algorithm>

#include "compute/cpu/kernel.hpp"

namespace starling::compute::cpu {

namespace {

// The loops below are written once for any block; a constant block makes them vector code.

/// The part of a window along one side that lies on the source.
struct Reach {
  std::size_t first;  ///< of the window's elements
  std::size_t end;
};

STARLING_INLINE Reach reach(const MaxPoolShape& s, std::size_t place, std::size_t side) {
  const std::size_t begin = place * s.stride;  // in the padded source
  return {begin < s.padding ? s.padding - begin : 0, std::min(s.kernel, side + s.padding - begin)};
}

STARLING_INLINE void forward_with(const MaxPoolShape& s, std::size_t first, std::size_t last,
                                  std::size_t block, bool after_relu, const float* source,
                                  float* result, std::int32_t* chosen) {
  const std::size_t places = s.out_height * s.out_width * block;
  result += first * places;
  chosen += first * places;
  for (std::size_t plane = first; plane < last; ++plane) {
    const float* const image = source + plane * s.height * s.width * block;
    for (std::size_t i = 0; i < s.out_height; ++i) {
      const Reach rows = reach(s, i, s.height);
      for (std::size_t j = 0; j < s.out_width; ++j, result += block, chosen += block) {
        const Reach columns = reach(s, j, s.width);
        bool begun = false;
        for (std::size_t u = rows.first; u < rows.end; ++u) {
          for (std::size_t v = columns.first; v < columns.end; ++v) {
            const float* const point =
                image +
                ((i * s.stride + u - s.padding) * s.width + j * s.stride + v - s.padding) * block;
            const auto k = static_cast<std::int32_t>(u * s.kernel + v);
            if (!begun) {
              for (std::size_t b = 0; b < block; ++b) result[b] = point[b];
              for (std::size_t b = 0; b < block; ++b) chosen[b] = k;
              begun = true;
              continue;
            }
            for (std::size_t b = 0; b < block; ++b) {
              const bool larger = point[b] > result[b];
              chosen[b] = larger ? k : chosen[b];
              result[b] = larger ? point[b] : result[b];
            }
          }
        }
        if (!after_relu) continue;
        for (std::size_t b = 0; b < block; ++b) chosen[b] = result[b] > 0.0F ? chosen[b] : -1;
      }
    }
  }
}

STARLING_INLINE void backward_with(const MaxPoolShape& s, std::size_t first, std::size_t last,
                                   std::size_t block, const float* gradient,
                                   const std::int32_t* chosen, float* source_gradient) {
  const std::size_t places = s.out_height * s.out_width * block;
  gradient += first * places;
  chosen += first * places;
  for (std::size_t plane = first; plane < last; ++plane) {
    float* const image = source_gradient + plane * s.height * s.width * block;
    std::fill_n(image, s.height * s.width * block, 0.0F);
    for (std::size_t i = 0; i < s.out_height; ++i) {
      const Reach rows = reach(s, i, s.height);
      for (std::size_t j = 0; j < s.out_width; ++j, gradient += block, chosen += block) {
        const Reach columns = reach(s, j, s.width);
        for (std::size_t u = rows.first; u < rows.end; ++u) {
          for (std::size_t v = columns.first; v < columns.end; ++v) {
            float* const point =
                image +
                ((i * s.stride + u - s.padding) * s.width + j * s.stride + v - s.padding) * block;
            const auto k = static_cast<std::int32_t>(u * s.kernel + v);
            for (std::size_t b = 0; b < block; ++b) {
              point[b] += chosen[b] == k ? gradient[b] : 0.0F;
            }
          }
        }
      }
    }
  }
}

STARLING_KERNEL
void forward_part(const MaxPoolShape& s, std::size_t first, std::size_t last, bool after_relu,
                  const float* source, float* result, std::int32_t* chosen) {
  if (s.block == 8) return forward_with(s, first, last, 8, after_relu, source, result, chosen);
  if (s.block == 16) return forward_with(s, first, last, 16, after_relu, source, result, chosen);
  forward_with(s, first, last, s.block, after_relu, source, result, chosen);
}

STARLING_KERNEL
void backward_part(const MaxPoolShape& s, std::size_t first, std::size_t last,
                   const float* gradient, const std::int32_t* chosen, float* source_gradient) {
  if (s.block == 8) return backward_with(s, first, last, 8, gradient, chosen, source_gradient);
  if (s.block == 16) return backward_with(s, first, last, 16, gradient, chosen, source_gradient);
  backward_with(s, first, last, s.block, gradient, chosen, source_gradient);
}

}  // namespace

void max_pool_forward(const MaxPoolShape& shape, bool after_relu, const float* source,
                      float* result, std::int32_t* chosen) {
  in_parallel(shape.planes, 1, [&](std::size_t first, std::size_t last) {
    forward_part(shape, first, last, after_relu, source, result, chosen);
  });
}

void max_pool_backward(const MaxPoolShape& shape, const float* result_gradient,
                       const std::int32_t* chosen, float* source_gradient) {
  in_parallel(shape.planes, 1, [&](std::size_t first, std::size_t last) {
    backward_part(shape, first, last, result_gradient, chosen, source_gradient);
  });
}

}  // namespace starling::compute::cpu
