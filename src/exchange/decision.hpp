// How two ends decide, each for itself and alike, how their link opens.
#pragma once

#include <cstdint>

#include "wire/messages.hpp"

namespace starling::exchange {

/// Up to this part of the run a replica counts as being at the initial parameters.
inline constexpr double kFreshProgress = 0.02;

enum class OpenDecision : std::uint8_t {
  resume,  ///< both still have the mirrors of one session
  fresh,   ///< both at the start, or not far: mirrors are the initial parameters, nothing is sent
  adopt,   ///< this end takes the other's replica
  give,    ///< the other end takes this one's
  merge,   ///< both have a history: each sends a keyframe
  wait,    ///< both would adopt: neither has what the other needs, one must find it elsewhere
};

/// Pure, and symmetric: with the arguments swapped adopt becomes give, the rest stays.
[[nodiscard]] OpenDecision decide_opening(const wire::LinkOpen& mine, const wire::LinkOpen& theirs);

/// Names what the two ends share from here on; the same for both, never 0.
[[nodiscard]] std::uint64_t session_of(std::uint64_t one_nonce, std::uint64_t other_nonce);

}  // namespace starling::exchange
