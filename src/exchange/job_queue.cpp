#include "exchange/job_queue.hpp"

#include <utility>

#include "base/assert.hpp"

namespace starling::exchange {
namespace {

template <class... Kinds>
bool is_any(const Job& job) {
  return (std::holds_alternative<Kinds>(job) || ...);
}

// Mirrors are closed before a link is opened again, or a keyframe for it is written. So where one
// of these waits, there are no mirrors but those that an earlier job closes.
Precedence closing_over(const Job& waiting) {
  if (is_any<KeyframeJob, OpenJob>(waiting)) return Precedence::cancels;
  if (is_any<EncodeJob, SuspendJob, ResumeJob>(waiting)) return Precedence::replaces;
  return is_any<CloseJob>(waiting) ? Precedence::repeats : Precedence::none;
}

}  // namespace

Precedence precedence(const Job& later, const Job& waiting) {
  if (peer_of(later) != peer_of(waiting)) return Precedence::none;
  if (is_any<CloseJob>(later)) return closing_over(waiting);
  if (is_any<SuspendJob, ResumeJob>(later) && is_any<SuspendJob, ResumeJob>(waiting)) {
    return later.index() == waiting.index() ? Precedence::repeats : Precedence::cancels;
  }
  const bool overtaken = is_any<EncodeJob>(waiting) && !is_any<CommitJob, KeyframeJob>(later);
  return overtaken ? Precedence::replaces : Precedence::none;
}

void JobQueue::push(Job job) {
  if (!make_room(jobs_, job, [](const Job& waiting) { return &waiting; })) return;
  ASSERT(jobs_.size() < kJobsMax);
  jobs_.push_back(std::move(job));
}

std::vector<Job> JobQueue::take(base::StepNumber step) {
  std::vector<Job> due;
  std::vector<Job> waiting;
  for (Job& job : jobs_) {
    const auto* encode = std::get_if<EncodeJob>(&job);
    const bool waits = encode != nullptr && !encode->at_once && step < encode->not_before;
    (waits ? waiting : due).push_back(std::move(job));
  }
  jobs_ = std::move(waiting);
  return due;
}

}  // namespace starling::exchange
