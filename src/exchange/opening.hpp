// How two ends decide, each for itself and alike, how their link opens.
#pragma once

#include <cstdint>

#include "base/time.hpp"
#include "wire/messages.hpp"

namespace starling::exchange {

/// Up to this part of the run a replica counts as being at the initial parameters.
inline constexpr double kFreshProgress = 0.02;
/// A peer whose known progress rises through this part while it has links has seen the run start.
inline constexpr double kRootedProgress = 0.1;
/// How long two ends that would both adopt wait for somebody better to adopt from.
inline constexpr base::Duration kAdoptPatience = std::chrono::seconds(5);

/// A peer that comes back lets its neighbours say first how far the swarm is, so long.
inline constexpr base::Duration kListenPatience = std::chrono::seconds(1);

/// A neighbour that was asked for its replica is waited for so long, since it may be in a long
/// step; twice as long after each ask that failed, up to the last. After a failure it is not asked
/// again for as long.
inline constexpr base::Duration kGivePatience = std::chrono::seconds(30);
inline constexpr base::Duration kGivePatienceMax = std::chrono::minutes(8);
/// And so often it is asked while its link lasts.
inline constexpr std::uint32_t kAsksMax = 8;
/// Bytes of a keyframe that arrive extend the patience by bytes / kKeyframeRateMin seconds.
inline constexpr double kKeyframeRateMin = 1024;

enum class OpenDecision : std::uint8_t {
  resume,  ///< both still have the mirrors of one session
  fresh,   ///< both at the start: mirrors are the initial parameters, nothing is sent
  adopt,   ///< this end takes the other's replica
  give,    ///< the other end takes this one's
  merge,   ///< both have a history: each sends a keyframe
  wait,    ///< both would adopt: neither has what the other needs, one must find it elsewhere
};

/// Pure, and symmetric: with the arguments swapped adopt becomes give, the rest stays.
[[nodiscard]] OpenDecision decide_opening(const wire::LinkOpen& mine, const wire::LinkOpen& theirs);

/// Names what the two ends share from here on; the same for both, never 0.
[[nodiscard]] std::uint64_t session_of(std::uint64_t one_nonce, std::uint64_t other_nonce);

[[nodiscard]] const char* to_string(OpenDecision decision) noexcept;

}  // namespace starling::exchange
