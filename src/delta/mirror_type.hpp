// How the mirrors of links are rounded.
#pragma once

#include <cstdint>

namespace starling::delta {

/// How mirrors are kept.
enum class MirrorType : std::uint8_t {
  float32,
  bfloat16,  ///< in half the memory; what is too small for it is made up for by later deltas
};

}  // namespace starling::delta
