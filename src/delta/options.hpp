// Options of a delta.
#pragma once

#include <cstdint>

namespace starling::delta {

/// How much of a difference a delta carries, and how finely.
struct Options {
  double density = 0.003;     ///< fraction of the elements, > 0, <= 1
  int bits = 4;               ///< a value: 1, 2, 3, 4 or 8
  std::uint32_t block = 128;  ///< values that share a scale, 1 .. kBlockMax
};

}  // namespace starling::delta
