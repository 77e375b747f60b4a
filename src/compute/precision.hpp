// The precision of values: the factors of products, and the mirrors of links.
#pragma once

#include <cstdint>

namespace starling::compute {

/// The factors of matrix products, convolutions and attention; sums, and everything else, are
/// float32. On a GPU, the result of a convolution is rounded, too.
enum class Precision : std::uint8_t {
  float32,
  bfloat16,  ///< both factors rounded to bfloat16 if the device gains from it; otherwise float32
};

}  // namespace starling::compute
