// How much one peer has trained: peers tell each other and remember it.
#pragma once

#include <cstdint>

namespace starling::base {

struct SampleCounter {
  std::uint64_t peer = 0;  ///< PeerId::prefix()
  std::uint64_t samples = 0;

  friend bool operator==(const SampleCounter&, const SampleCounter&) = default;
};

}  // namespace starling::base
