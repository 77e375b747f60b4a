// The jobs that wait at the trainer's side, and which of them are due at a step boundary.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "exchange/config.hpp"
#include "exchange/jobs.hpp"

namespace starling::exchange {

/// Jobs of one link that wait at once, at most: the commit of a session, the end of its mirrors,
/// and the keyframe or opening of the next one.
inline constexpr std::size_t kLinkJobsMax = 3;
/// Jobs that wait at once: those of links that are up, and of links that are not but still have
/// mirrors. More is a bug (ASSERT).
inline constexpr std::size_t kJobsMax = kLinkJobsMax * (2 * kLinksMax + kGraceLinksMax);

/// The effect of a job on one that waits before it.
enum class Precedence : std::uint8_t {
  none,      ///< both are run
  replaces,  ///< the waiting one is dropped
  cancels,   ///< both are dropped: the later one undoes what was never done
  repeats,   ///< the later one is dropped: the waiting one does the same
};

/// So that the jobs of a link that wait for an owner who does not come stay few. What is dropped
/// has no outcome, and whoever asked for it does not wait for one any more: by the later job it has
/// said so. Commits are never dropped, since the other end may have made theirs; they may find
/// their link suspended, where it broke again before its return was heard of.
[[nodiscard]] Precedence precedence(const Job& later, const Job& waiting);

/// Takes out of `waiting` what `later` makes needless. False: `later` is needless, too.
/// `job_of(item)`: a pointer to the exchange's job that an item is, or null.
template <class Items, class JobOf>
[[nodiscard]] bool make_room(Items& waiting, const Job& later, JobOf&& job_of) {
  bool needed = true;
  std::erase_if(waiting, [&](const auto& item) {
    const Job* job = job_of(item);
    const Precedence has = job == nullptr ? Precedence::none : precedence(later, *job);
    if (has == Precedence::cancels || has == Precedence::repeats) needed = false;
    return has == Precedence::cancels || has == Precedence::replaces;
  });
  return needed;
}

/// First in, first out, but for deltas whose step has not come: those wait without holding up
/// others. What later jobs make needless is dropped (precedence()). One thread (the replica's
/// owner's).
class JobQueue {
 public:
  void push(Job job);
  /// Takes what is due once `step` steps are made, in order.
  [[nodiscard]] std::vector<Job> take(base::StepNumber step);
  [[nodiscard]] bool empty() const noexcept { return jobs_.empty(); }
  [[nodiscard]] std::size_t size() const noexcept { return jobs_.size(); }

 private:
  std::vector<Job> jobs_;
};

}  // namespace starling::exchange
