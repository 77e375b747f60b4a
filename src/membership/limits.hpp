// Bounds and periods of membership. Everything that can grow or wait has one here.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/time.hpp"

namespace starling::membership {

using namespace std::chrono_literals;

// --- tables ---
inline constexpr std::size_t kMembersMax = 4096;   ///< records of the member table, self included
inline constexpr std::size_t kProgressMax = 4096;  ///< progress counters
inline constexpr std::size_t kReadyLinksMax = 64;  ///< ready links, whatever they are for
inline constexpr std::size_t kReadyLinksOfRelayMax = 224;  ///< and those of a relay
inline constexpr std::size_t kDialsMax = 8;                ///< dials under way
/// Of them at addresses heard on the local network, where anybody can say anything.
inline constexpr std::size_t kFoundDialsMax = kDialsMax / 4;
inline constexpr std::size_t kRevivalsMax = kDialsMax / 2;  ///< and of dead members
inline constexpr std::size_t kJoinMax = 64;                 ///< configured addresses that are used
inline constexpr std::size_t kOwnAddressesMax = 64;         ///< that have led to this peer itself
inline constexpr std::size_t kRememberedMax = 32;  ///< addresses of others that a peer saves
inline constexpr std::uint32_t kDegreeMax = 32;    ///< neighbours that a peer seeks
inline constexpr std::size_t kServedMax = 192;     ///< neighbours of a relay
inline constexpr std::size_t kRelaysSought = 4;    ///< by a peer that may not be dialed
inline constexpr std::size_t kRelaysMax = 8;       ///< that a peer is linked with
/// An incarnation or sample counter from here on is a lie: nobody counts that far.
inline constexpr std::uint64_t kCounterMax = std::uint64_t{1} << 51;
/// Bytes of records in one gossip frame: addresses can be long, a frame's metadata is bounded.
inline constexpr std::size_t kGossipBytesMax = 32 * 1024;

// --- dialing ---
inline constexpr base::Duration kBackoffMin = 100ms;  ///< alive members and join addresses
inline constexpr base::Duration kBackoffMax = 15s;
/// Dead members, and join addresses while no link is missing.
inline constexpr base::Duration kRevivalMin = 5s;
inline constexpr base::Duration kRevivalMax = 60s;
inline constexpr base::Duration kRejectedPause =
    1s;                                   ///< before a peer that rejected is asked again
inline constexpr double kFoundDials = 3;  ///< dials that a swarm makes when it hears a stranger
/// Before an address that led to this peer itself is dialed again: machines change their addresses.
inline constexpr base::Duration kOwnAddressMemory = 600s;
/// Before an address at which another peer answered is dialed for the same member again.
inline constexpr base::Duration kTakenMemory = 600s;
inline constexpr int kFailuresCounted = 3;    ///< dials of one address of a member that failed
inline constexpr std::size_t kTriedMax = 16;  ///< addresses of a member of which that is known
inline constexpr base::Duration kDialTimeout = 5s;  ///< a dial without an outcome has failed

// --- overlay ---
inline constexpr std::uint32_t kDegreeSlack = 1;  ///< requests are accepted below degree + slack
inline constexpr std::uint32_t kRejectionsBeforeUrgent = 3;
/// Before a peer with neighbours asks one urgently that has no room for one more.
inline constexpr std::uint32_t kRejectionsBeforeFull = 12;
/// Before a peer that was rejected dials members again, or without neighbours asks urgently again.
inline constexpr base::Duration kSeekPauseMax = 5s;
/// A peer that only dials seeks those that rejected it no sooner than others for so long.
inline constexpr base::Duration kNoPlaceMemory = 30s;
inline constexpr base::Duration kRequestTimeout = 5s;   ///< a request without an answer
inline constexpr base::Duration kContactLife = 2s;      ///< of a link between no neighbours: dialer
inline constexpr base::Duration kContactLifeMax = 10s;  ///< and acceptor
/// Two links between a pair, dialed by different ends, can only be of simultaneous dials while
/// the first is younger than this.
inline constexpr base::Duration kSimultaneous = kDialTimeout + 1s;

/// A neighbour that was lost is taken back first for so long: the other end keeps its mirrors.
inline constexpr base::Duration kReconnectFirst = 30s;

// --- failure detection ---
// "Periods" are swarm.heartbeat; beats are the messages.
inline constexpr int kBeatsApartMax = 3;   ///< periods between two beats, at most
inline constexpr int kSilentBeatsMin = 3;  ///< beats missed before a neighbour is suspect
inline constexpr base::Duration kSilenceMax = 15s;
/// Periods from suspect to dead: with one accuser, and with kAccusersMax; all of a member's
/// link partners leave it one. Times the local health.
inline constexpr int kSuspicionBeatsMax = 5;
inline constexpr int kSuspicionBeatsMin = 2;
inline constexpr int kAccusersMax = 8;  ///< accusers of one member that are counted and passed on
inline constexpr int kHealthMax = 8;    ///< worst score of the local health
/// A member's second death within kFlapMemory makes its return wait this long, each further one
/// twice as long.
inline constexpr base::Duration kHoldMin = 60s;
inline constexpr base::Duration kHoldMax = 600s;
inline constexpr base::Duration kFlapMemory = 600s;
/// In a swarm of so many the first return of a member waits kHoldMin, too, and the next verdict on
/// it as long.
inline constexpr std::size_t kLargeSwarm = 64;
inline constexpr std::uint64_t kRefutationsMax = 30;  ///< of one life, in this memory
inline constexpr base::Duration kCutMemory = 60s;  ///< deaths of half the members within it: a cut
/// A timer this late means that this peer is overloaded; and this late, that it stood still: it
/// then suspects nobody for it.
inline constexpr base::Duration kLateMin = 250ms;
inline constexpr base::Duration kPauseMin = 1s;
/// Of a peer that misbehaved, the first time and at most; and how long it is remembered afterwards.
inline constexpr base::Duration kBanTime = 60s;
inline constexpr base::Duration kBanMax = 3600s;
inline constexpr base::Duration kBanMemory = 3600s;
/// Before a peer is a neighbour again that this one had no memory for.
inline constexpr base::Duration kNoRoomTime = 60s;
/// Between two records with which this peer overrules those of another process that has its key.
inline constexpr base::Duration kOverruleMin = 1s;
inline constexpr base::Duration kOverruleMax = 30s;
inline constexpr base::Duration kConflictMemory = 600s;  ///< without such a record, it is over
inline constexpr base::Duration kConflictTold = 600s;    ///< a person is told once in so long

/// Every so often one member is dialed that is no neighbour and whose counter has not moved for
/// kEvidence: nobody on this side of a cut may be watching it.
inline constexpr base::Duration kProbeEvery = 10s;
inline constexpr base::Duration kEvidence = 10s;  ///< and the time that counters may take

// --- anti-entropy ---
inline constexpr int kMismatchBeats =
    3;  ///< differing table hashes in a row before tables are compared
inline constexpr base::Duration kTableEveryMin = 5s;
inline constexpr base::Duration kTableEveryMax = 320s;

inline constexpr std::size_t kBucketRecords = 16;  ///< of a table that is compared, about
/// Records that one link may ask for within kTableEveryMin.
inline constexpr std::size_t kRecordsAsked = kMembersMax;
/// Members that a peer which takes no further neighbour names to a joiner.
inline constexpr std::size_t kReferrals = 8;
/// Joiners that one peer takes up, so many at once; further ones it only names other members to.
inline constexpr double kStrangersPerSecond = 64;

// --- progress ---
/// The bytes that counters may cost a peer each way, and the cost of an entry by the time all have
/// it: its bytes times the links that it comes over. Decides how often a peer tells its own.
inline constexpr double kProgressBytesPerSecond = 1000;
inline constexpr double kProgressEntryBytes = 16;
inline constexpr double kProgressCopies = 3;
/// A counter is taken to go on for so long, at least.
inline constexpr base::Duration kExtrapolateMin = 2s;
inline constexpr double kRateMax = 1e9;       ///< samples a second; more is not believed
inline constexpr base::Duration kStall = 2s;  ///< without a step: the others are told so
inline constexpr int kReportEvery = 8;  ///< an own entry with the report, though only drift moved
// A peer is vouched for as far as it will come in so many of the intervals in which it tells its
// counter, and at least for this part of what it has: so vouchers are few.
inline constexpr int kVouchAheadIntervals = 40;
inline constexpr int kVouchAheadPart = 8;
/// What is plausible is what a usual peer trains in the time, but at least in this, times
/// kTimesUsual; and up to kTimesMost where the replica moves more than that of who watches it.
inline constexpr base::Duration kVouchSlack = 2s;
inline constexpr double kTimesUsual = 8;
inline constexpr double kTimesMost = 4096;
inline constexpr int kExchangesWatched = 16;  ///< that say how much more it moves
/// Squares of what equal peers move, at most this many times apart: one that holds nothing back
/// from its training tells two to three times as much as others.
inline constexpr double kMovesAlike = 6;
/// A peer with nobody to compare others with takes their word after so long; and until then, it
/// counts what nobody can have vouched for yet, up to so many times what it has trained itself.
inline constexpr base::Duration kVouchPatience = 10s;
inline constexpr std::uint64_t kEarlyTimes = 2;
/// Peers of a table whose usual rate is not found anew for each of them.
inline constexpr std::size_t kUsualExact = 64;
inline constexpr base::Duration kBeatPauseMin = 100ms;  ///< between beats that news hurries

}  // namespace starling::membership
