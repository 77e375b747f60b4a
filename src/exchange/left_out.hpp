// A neighbour without which settling has ended, and why.
#pragma once

#include <cstdint>

#include "base/enum_names.hpp"
#include "base/peer_id.hpp"

namespace starling::exchange {

enum class LeftOutFor : std::uint8_t {
  unopened,   ///< its link did not open
  silent,     ///< it committed no exchange any more
  disagrees,  ///< it says that the two are apart, and they are near by this end's measure
  apart,      ///< the two stayed apart
  late,       ///< its link opened when the others had begun to settle along a tree without it
  lost,       ///< its link was lost
};

/// For people.
inline constexpr base::EnumNames<LeftOutFor, 6> kLeftOutNames{{
    {"its link does not open", LeftOutFor::unopened},
    {"it commits no exchange", LeftOutFor::silent},
    {"it does not agree, though it is near", LeftOutFor::disagrees},
    {"it stays apart", LeftOutFor::apart},
    {"it came too late", LeftOutFor::late},
    {"its link was lost", LeftOutFor::lost},
}};

struct LeftOut {
  base::PeerId peer;
  LeftOutFor why = LeftOutFor::unopened;
};

}  // namespace starling::exchange
