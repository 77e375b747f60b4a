// How the mirrors of links are rounded.
#pragma once

#include <cstdint>

namespace starling::delta {

/// How mirrors are kept.
enum class MirrorType : std::uint8_t {
  float32,
  bfloat16,  ///< in half the memory; later deltas make up for parts that are too small for it
};

}  // namespace starling::delta
