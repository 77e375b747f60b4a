// How two ends decide, each for itself and alike, how their link opens.
#pragma once

#include <cstdint>

#include "base/time.hpp"
#include "wire/messages.hpp"

namespace starling::exchange {

/// Up to this part of the run a replica counts as being at the initial parameters.
inline constexpr double kFreshProgress = 0.02;
/// A peer with open links whose progress rises from kFreshProgress to this has been in the run from
/// its start: its replica counts as mixed with others'.
inline constexpr double kHistoryProgress = 0.1;
/// How long two ends that would both adopt wait for somebody better to adopt from.
inline constexpr base::Duration kWaitTimeout = std::chrono::seconds(5);

/// How long a restarted peer waits for a neighbour's LinkOpen, which says how far the swarm is,
/// before it sends its own.
inline constexpr base::Duration kListenTimeout = std::chrono::seconds(1);

/// How long a neighbour that was asked for its replica is waited for: it may be in a long step.
/// Doubled after each ask that failed, up to kAskTimeoutMax. After a failure it is not asked again
/// for the same time.
inline constexpr base::Duration kAskTimeout = std::chrono::seconds(30);
inline constexpr base::Duration kAskTimeoutMax = std::chrono::minutes(8);
/// Asks of one neighbour that may fail before it is asked no more; a late keyframe allows one
/// more.
inline constexpr std::uint32_t kAsksMax = 8;
/// Bytes/s: a keyframe that arrives extends the timeout by its bytes / kKeyframeRateMin seconds, or
/// by as much less as the largest one needs to come in kKeyframeTimeMax.
inline constexpr double kKeyframeRateMin = 1024;
inline constexpr base::Duration kKeyframeTimeMax = std::chrono::hours(1);

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

}  // namespace starling::exchange
