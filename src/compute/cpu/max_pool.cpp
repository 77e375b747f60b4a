#include "compute/cpu/max_pool.hpp"

#include <algorithm>

#include "compute/cpu/kernel.hpp"

namespace starling::compute::cpu {

namespace {

/// The part of a window along one side that lies on the source.
struct Reach {
  std::size_t first;  ///< of the window's elements
  std::size_t end;
};

STARLING_INLINE Reach reach(const MaxPoolShape& s, std::size_t place, std::size_t side) {
  const std::size_t begin = place * s.stride;  // in the padded source
  return {begin < s.padding ? s.padding - begin : 0, std::min(s.kernel, side + s.padding - begin)};
}

// A point's channels, some at a time. Vectors are written by hand: the compiler makes scalar code
// of loops over the channels of a block.
struct One {
  static constexpr std::size_t kLanes = 1;
  using Values = float;
  using Places = std::int32_t;
};
struct Four {
  static constexpr std::size_t kLanes = 4;
  using Values __attribute__((vector_size(16), aligned(4), may_alias)) = float;
  using Places __attribute__((vector_size(16), aligned(4), may_alias)) = std::int32_t;
};

template <class To, class From>
STARLING_INLINE To& as(From* at) {
  return *reinterpret_cast<To*>(at);
}

template <class Lanes>
STARLING_INLINE void forward_with(const MaxPoolShape& s, std::size_t first, std::size_t last,
                                  bool after_relu, const float* source, float* result,
                                  std::int32_t* chosen) {
  using Values = typename Lanes::Values;
  using Places = typename Lanes::Places;
  const std::size_t block = s.block;
  const std::size_t places = s.out_height * s.out_width * block;
  result += first * places;
  chosen += first * places;
  for (std::size_t plane = first; plane < last; ++plane) {
    const float* const image = source + plane * s.height * s.width * block;
    for (std::size_t i = 0; i < s.out_height; ++i) {
      const Reach rows = reach(s, i, s.height);
      for (std::size_t j = 0; j < s.out_width; ++j, result += block, chosen += block) {
        const Reach columns = reach(s, j, s.width);
        for (std::size_t b = 0; b < block; b += Lanes::kLanes) {
          const auto at = [&](std::size_t u, std::size_t v) -> const Values& {
            return as<const Values>(
                image +
                ((i * s.stride + u - s.padding) * s.width + j * s.stride + v - s.padding) * block +
                b);
          };
          Values most = at(rows.first, columns.first);
          Places which =
              Places{} + static_cast<std::int32_t>(rows.first * s.kernel + columns.first);
          for (std::size_t u = rows.first; u < rows.end; ++u) {
            for (std::size_t v = columns.first; v < columns.end; ++v) {
              const Values point = at(u, v);
              const Places here = Places{} + static_cast<std::int32_t>(u * s.kernel + v);
              // NaN wins: divergence must reach the loss.
              const auto wins = (point > most) | (point != point);
              which = wins ? here : which;
              most = wins ? point : most;
            }
          }
          as<Values>(result + b) = most;
          as<Places>(chosen + b) = !after_relu ? which : most > Values{} ? which : Places{} - 1;
        }
      }
    }
  }
}

template <class Lanes>
STARLING_INLINE void backward_with(const MaxPoolShape& s, std::size_t first, std::size_t last,
                                   const float* gradient, const std::int32_t* chosen,
                                   float* source_gradient) {
  using Values = typename Lanes::Values;
  using Places = typename Lanes::Places;
  const std::size_t block = s.block;
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
        for (std::size_t b = 0; b < block; b += Lanes::kLanes) {
          const Values from = as<const Values>(gradient + b);
          const Places which = as<const Places>(chosen + b);
          for (std::size_t u = rows.first; u < rows.end; ++u) {
            for (std::size_t v = columns.first; v < columns.end; ++v) {
              const Places here = Places{} + static_cast<std::int32_t>(u * s.kernel + v);
              as<Values>(image +
                         ((i * s.stride + u - s.padding) * s.width + j * s.stride + v - s.padding) *
                             block +
                         b) += which == here ? from : Values{};
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
  if (s.block % Four::kLanes == 0) {
    forward_with<Four>(s, first, last, after_relu, source, result, chosen);
  } else {
    forward_with<One>(s, first, last, after_relu, source, result, chosen);
  }
}

STARLING_KERNEL
void backward_part(const MaxPoolShape& s, std::size_t first, std::size_t last,
                   const float* gradient, const std::int32_t* chosen, float* source_gradient) {
  if (s.block % Four::kLanes == 0) {
    backward_with<Four>(s, first, last, gradient, chosen, source_gradient);
  } else {
    backward_with<One>(s, first, last, gradient, chosen, source_gradient);
  }
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
