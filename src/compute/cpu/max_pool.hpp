// Max pooling on blocked layouts. oneDNN 2.6's took 10 ms of a 70 ms step of the reference CNN,
// five times as long as the memory traffic needs; this one also undoes a ReLU before the pool.
#pragma once

#include <cstddef>
#include <cstdint>

namespace starling::compute::cpu {

/// Activations as planes of height x width points with `block` channels side by side in a point:
/// NCHW has N*C planes with a block of 1, nChw8c has N*C/8 planes with a block of 8.
struct MaxPoolShape {
  std::size_t planes = 0;
  std::size_t block = 0;
  std::size_t height = 0, width = 0;          ///< of the source
  std::size_t out_height = 0, out_width = 0;  ///< of the result
  std::size_t kernel = 0, stride = 0;
  std::size_t padding = 0;  ///< around the source; never the largest
};

/// The largest element of each window, and in `chosen` (one per result) its number in the window,
/// counted row by row: the first of equals. With `after_relu`, the source comes from a ReLU and
/// `chosen` is -1 if the largest is not above zero: no gradient passes there.
void max_pool_forward(const MaxPoolShape& shape, bool after_relu, const float* source,
                      float* result, std::int32_t* chosen);

/// Gradient of the source (of the ReLU's source, if `chosen` was made with after_relu).
void max_pool_backward(const MaxPoolShape& shape, const float* result_gradient,
                       const std::int32_t* chosen, float* source_gradient);

}  // namespace starling::compute::cpu
