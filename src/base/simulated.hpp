// Lets the simulator do more to the cores than faults from outside: take rare branches, and plant a
// bug that must be found. Only in programs built with -DSTARLING_SIMULATED (starling-sim); in all
// others, SIM_RARE() and SIM_BUG() are false at compile time.
//
//     if (SIM_RARE(no_referral)) return;     // allowed at any time, rarely taken
//     if (SIM_BUG(refute_never)) return;     // wrong, and the simulator must notice
#pragma once

#ifdef STARLING_SIMULATED

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "base/rng.hpp"

// clang-format off

/// Bugs that can be planted: a name, and where it is.
#define STARLING_BUGS(X)                                                                          \
  X(commit_skipped, "exchange: a commit in eight is reported but not applied")                    \
  X(mirror_of_theirs_forgotten, "exchange: the other end's delta does not reach its mirror")      \
  X(weight_of_own_degree, "exchange: w from the own degree only")                                 \
  X(step_not_applied, "exchange: a commit moves the mirrors, not the replica")                    \
  X(nothing_resent, "exchange: after a resume nothing is sent again")                             \
  X(all_resent, "exchange: after a resume committed deltas are sent again")                       \
  X(kept_for_ever, "exchange: deltas are kept that the other end has committed")                  \
  X(merge_for_adopt, "exchange: an end that should adopt merges")                                 \
  X(grace_for_ever, "exchange: broken links are never forgotten")                                 \
  X(close_forgotten, "exchange: a forgotten link keeps its mirrors")                              \
  X(mean_not_taken, "exchange: a child leaves its replica where the mean is spread")              \
  X(adopted_not, "exchange: an adoption's keyframe sets only the mirrors")                        \
  X(buffers_not_adopted, "exchange: an adoption keeps the own buffers")                           \
  X(buffers_not_averaged, "exchange: the other end's buffers do not reach the own ones")          \
  X(next_not_asked_for, "exchange: from exchange 4 on no delta is requested")                     \
  X(left_links_kept, "exchange: the link with a peer that left stays")                            \
  X(settled_never, "exchange: settling ends when its time is over")                               \
  X(settled_at_once, "exchange: settling does not wait for the links")                            \
  X(settled_alone, "exchange: a peer without a link settles at once")                             \
  X(ring_resends_nothing, "exchange: a ring does not resend on a new link")                       \
  X(suspended_for_ever, "exchange: a resumed link does not count as open")                        \
  X(refute_never, "membership: no verdict is refuted")                                            \
  X(refute_others, "membership: a verdict raises the incarnation of another")                     \
  X(reconcile_never, "membership: tables are not compared")                                       \
  X(dead_not_retried, "membership: dead members are not dialed")                                  \
  X(stranger_dialed_again, "membership: an address where another peer answers is dialed at once") \
  X(timeout_of_mean, "membership: a neighbour is suspect when its beat is a little late")         \
  X(dead_dialed_often, "membership: the dead are dialed as often as the living")                  \
  X(returns_believed, "membership: a member that keeps dying is always believed")                 \
  X(suspicion_for_ever, "membership: a suspicion never ends")                                     \
  X(silence_unnoticed, "membership: silence does not cause suspicion")                            \
  X(surplus_kept, "membership: neighbours are never too many")                                    \
  X(leave_unsigned, "membership: a member that leaves does not sign that")                        \
  X(death_reasons_kept, "membership: why a member was lost is kept when it is back")              \
  X(claims_kept, "membership: a claim is told again with each event")                             \
  X(told_kept, "membership: records told to a neighbour outlive its link")                        \
  X(vouched_unseen, "membership: a peer vouches for whatever a neighbour counts")                 \
  X(counters_anew, "membership: each news of a counter is one counter more")                      \
  X(back_off_unbounded, "membership: nothing bounds the pause between dials")                     \
  X(samples_added, "membership: a delta's samples are added to those known")                      \
  X(dialed_back_elsewhere, "reach: a dial back goes to another's address than the asker's")       \
  X(introduced_never, "reach: no introduction is passed on")                                      \
  X(circuits_unlimited, "reach: a relay takes any number of circuits")                            \
  X(shards_not_moved, "peer: a death moves no shards")                                            \
  X(samples_forgotten, "peer: a restart forgets the samples of its checkpoint")                   \
  X(steps_end, "peer: after an adoption no step is requested")                                    \
  X(save_once, "peer: a failed save is awaited forever")                                          \
  X(rate_of_the_start, "peer: the learning rate does not follow the run")                         \
  X(progress_falls, "peer: the known progress of the run may fall")                               \
  X(rate_of_zero, "peer: steps are made with a learning rate of 0")                               \
  X(ring_left_early, "peer: a peer leaves a ring before its successor has all")                   \
  X(checksum_unchecked, "wire: a frame's checksum is not checked")                                \
  X(samples_rounded, "wire: sample counters are sent too high")

/// Branches that are allowed at any time, and rarely taken.
#define STARLING_RARE(X)                                                                          \
  X(beat_late) X(beat_early) X(few_progress_entries) X(reports_told_again) X(no_seek)             \
  X(dial_not_now) X(reject_with_room) X(accept_without_room)                                      \
  X(short_request) X(urgent_at_once) X(short_contact) X(reconcile_early) X(reconcile_late)        \
  X(reconcile_by_entries) X(one_bucket_a_frame) X(one_record_a_frame) X(no_question)              \
  X(few_records) X(no_referral) X(wait_before_redial) X(neighbour_dropped) X(accuse_healthy)      \
  X(refute_twice) X(back_off_long) X(back_off_none) X(probe_now) X(no_hurry) X(health_worse)      \
  X(reset_unnoticed) X(no_lost_first) X(hello_ignored) X(one_step_ahead) X(save_now)              \
  X(shards_told_again) X(progress_unpublished) X(whole_density) X(least_density) X(other_bits)    \
  X(other_block) X(hash_with_delta) X(delta_late) X(delta_at_once) X(no_grace)                    \
  X(session_forgotten) X(opened_again) X(never_adopts) X(jobs_one_by_one) X(grace_of_one)         \
  X(settle_slowly) X(settle_without_tree) X(left_out_of_tree) X(slow_in_tree)

// clang-format on

namespace starling::base::simulated {

enum class Bug : std::uint8_t {
  none,
#define STARLING_NAME(name, text) name,
  STARLING_BUGS(STARLING_NAME)
#undef STARLING_NAME
};

enum class Rare : std::uint8_t {
#define STARLING_NAME(name) name,
  STARLING_RARE(STARLING_NAME)
#undef STARLING_NAME
      count
};

struct BugName {
  Bug bug;
  std::string_view name;
  std::string_view text;
};
inline constexpr BugName kBugs[] = {
#define STARLING_NAME(name, text) {Bug::name, #name, text},
    STARLING_BUGS(STARLING_NAME)
#undef STARLING_NAME
};
inline constexpr std::size_t kRareCount = static_cast<std::size_t>(Rare::count);

/// The switches that are on. The simulator has one thread.
struct Switches {
  Bug bug = Bug::none;
  Rng rng{0};
  /// In 2^32: in one run, most places never take their branch, so that the effect of the others
  /// shows.
  std::array<std::uint32_t, kRareCount> chance{};
  std::array<std::uint64_t, kRareCount> taken{};  ///< in all runs together
};
inline Switches switches;

/// Places that few runs pass, and those rarely: there, in half of the runs, both branches are
/// equally likely.
inline constexpr Rare kSeldomPassed[] = {
    Rare::no_question,   Rare::reset_unnoticed, Rare::wait_before_redial, Rare::reconcile_late,
    Rare::no_lost_first, Rare::back_off_long,   Rare::settle_slowly};

/// Before each run: chooses the places that take their rare branch, and how often. `rare` false:
/// none.
inline void begin(std::uint64_t seed, bool rare) {
  constexpr std::uint32_t kChances[] = {1U << 22, 1U << 25, 1U << 28};  // 0.1%, 0.8%, 6%
  switches.rng = Rng(seed);
  for (std::uint32_t& chance : switches.chance) {
    chance = rare && switches.rng.below(4) == 0 ? kChances[switches.rng.below(3)] : 0;
  }
  for (const Rare place : kSeldomPassed) {
    const bool taken = rare && switches.rng.below(2) == 0;
    switches.chance[static_cast<std::size_t>(place)] = taken ? 1U << 31 : 0;
  }
}

/// How often each branch was taken, by its name.
inline std::vector<std::pair<std::string_view, std::uint64_t>> rare_taken() {
  std::vector<std::pair<std::string_view, std::uint64_t>> all;
#define STARLING_NAME(name) all.emplace_back(#name, switches.taken[all.size()]);
  STARLING_RARE(STARLING_NAME)
#undef STARLING_NAME
  return all;
}

inline bool is_planted(Bug bug) noexcept { return switches.bug == bug; }

inline bool is_rare(Rare place) noexcept {
  const auto index = static_cast<std::size_t>(place);
  if (switches.chance[index] == 0) return false;
  if (switches.rng() >> 32 >= switches.chance[index]) return false;
  ++switches.taken[index];
  return true;
}

}  // namespace starling::base::simulated

#define SIM_BUG(name) \
  ::starling::base::simulated::is_planted(::starling::base::simulated::Bug::name)
#define SIM_RARE(name) ::starling::base::simulated::is_rare(::starling::base::simulated::Rare::name)

#else

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace starling::base::simulated {

/// Nothing can be switched on in this program.
inline void begin(std::uint64_t, bool) {}
inline std::vector<std::pair<std::string_view, std::uint64_t>> rare_taken() { return {}; }

}  // namespace starling::base::simulated

#define SIM_BUG(name) false
#define SIM_RARE(name) false

#endif
