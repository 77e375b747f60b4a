// How the factors of products are rounded.
#pragma once

#include <cstdint>

namespace starling::compute {

/// What products of matrices, convolutions and attention take; sums, and all else, are float32. On
/// a GPU what a convolution gives is rounded, too.
enum class Precision : std::uint8_t {
  float32,
  bfloat16,  ///< both factors rounded to bfloat16, where the device gains from it; else float32
};

}  // namespace starling::compute
