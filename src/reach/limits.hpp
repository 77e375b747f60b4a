// Bounds and periods of reach. Everything that can grow or wait has one here.
#pragma once

#include <cstddef>

#include "base/time.hpp"

namespace starling::reach {

using namespace std::chrono_literals;

// --- can this peer be dialed? ---
inline constexpr std::size_t kWitnesses = 2;      ///< members of different networks that are asked
inline constexpr base::Duration kGather = 300ms;  ///< for links to come up, before it asks
/// Before members of its own network are asked, if no others are linked.
inline constexpr base::Duration kLocalAfter = 2s;
inline constexpr base::Duration kProbeTime = 3s;     ///< a dial back without an outcome has failed
inline constexpr base::Duration kWitnessWait = 5s;   ///< for the answer
inline constexpr base::Duration kAskPause = 10s;     ///< between two rounds, at least
inline constexpr base::Duration kAskAgain = 300s;    ///< after a result
inline constexpr base::Duration kAskAgainMin = 30s;  ///< without one, doubling up to kAskAgain
/// For others: dials back for each link, and in total.
inline constexpr double kDialBacksEach = 0.1;  ///< a second
inline constexpr double kDialBacksEachBurst = 2;
inline constexpr double kDialBacksAll = 1;  ///< a second
inline constexpr double kDialBacksAllBurst = 8;
inline constexpr std::size_t kProbesMax = 4;  ///< under way

// --- links ---
inline constexpr std::size_t kLinksMax = 256;   ///< equal to peer::kConnectionsMax
inline constexpr std::size_t kDialsMax = 64;    ///< under way, membership's included
inline constexpr std::size_t kBacksMax = 32;    ///< of these, because others asked
inline constexpr std::size_t kFailedMax = 256;  ///< members whose direct dial failed lately
inline constexpr base::Duration kFailedMemory = 120s;

// --- introductions ---
inline constexpr std::size_t kAttemptsMax = 16;  ///< wanted members, and direct paths looked for
inline constexpr std::size_t kAskedMax = 8;      ///< links that are asked for one introduction
inline constexpr base::Duration kDirectAlone = 500ms;  ///< of a dial, before it gets help
inline constexpr base::Duration kAskWait = 1s;         ///< for a first answer
inline constexpr int kTries = 3;                       ///< simultaneous dials
inline constexpr base::Duration kTryTime = 300ms;      ///< plus four round trips: TCP, TLS, Hello
/// After all tries with a member have failed, only a circuit is tried for this long.
inline constexpr base::Duration kUnmetMemory = 300s;
inline constexpr std::size_t kUnmetMax = 256;
inline constexpr base::Duration kRoundTripMax = 1s;  ///< longer ones are not believed
inline constexpr base::Duration kAttemptTime = 8s;   ///< in total
inline constexpr std::size_t kIntroducedMax = 64;    ///< members that were introduced to this one
inline constexpr base::Duration kIntroducedFor = 8s;
inline constexpr std::size_t kCandidates = 2;  ///< addresses of one member, dialed at a moment
/// Introductions that one link may ask for, to be passed on or for this peer.
inline constexpr double kIntroductionsEach = 8;  ///< a second
inline constexpr double kIntroductionsEachBurst = 32;
inline constexpr double kBacksAll = 8;  ///< dials for introduced members a second
inline constexpr double kBacksAllBurst = 32;

// --- circuits ---
inline constexpr std::size_t kCircuitsMax = 4096;   ///< largest setting
inline constexpr double kRelayLimitMax = 1e6;       ///< Mbit/s, largest setting
inline constexpr std::size_t kCircuitsOfOne = 6;    ///< for one asking member
inline constexpr std::size_t kCircuitEndsMax = 32;  ///< own ends of circuits
inline constexpr base::Duration kCallWait = 1s;     ///< for a relay's answer
inline constexpr base::Duration kOfferWait = 2s;    ///< for the target's, at the relay
inline constexpr base::Duration kOpenWait = 3s;     ///< from its answer to the link
/// The transport ends a circuit that carries nothing for this long.
inline constexpr base::Duration kCircuitIdle = 60s;
inline constexpr base::Duration kUpgradeMin = 5s;  ///< before a direct path is looked for, doubling
inline constexpr base::Duration kUpgradeMax = 600s;

}  // namespace starling::reach
