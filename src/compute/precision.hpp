// What values are rounded to: the factors of products, and the mirrors of links.
#pragma once

#include <cstdint>

namespace starling::compute {

/// What products of matrices, convolutions and attention take; sums, and all else, are float32. On
/// a GPU what a convolution gives is rounded, too.
enum class Precision : std::uint8_t {
  float32,
  bfloat16,  ///< both factors rounded to bfloat16, where the device gains from it; else float32
};

/// How mirrors are kept.
enum class MirrorType : std::uint8_t {
  float32,
  bfloat16,  ///< in half the memory; what is too small for it is made up for by later deltas
};

}  // namespace starling::compute
