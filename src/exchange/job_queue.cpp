#include "exchange/job_queue.hpp"

#include <utility>

#include "base/assert.hpp"

namespace starling::exchange {
namespace {

bool ends_encode(const Job& job) {
  return !std::holds_alternative<CommitJob>(job) && !std::holds_alternative<KeyframeJob>(job);
}

}  // namespace

void JobQueue::push(Job job) {
  if (ends_encode(job)) {
    std::erase_if(jobs_, [&](const Job& waiting) {
      return std::holds_alternative<EncodeJob>(waiting) && peer_of(waiting) == peer_of(job);
    });
  }
  ASSERT(jobs_.size() < kJobsMax);
  jobs_.push_back(std::move(job));
}

std::vector<Job> JobQueue::take(base::StepNumber step, bool stepping) {
  std::vector<Job> due;
  std::vector<Job> waiting;
  for (Job& job : jobs_) {
    const auto* encode = std::get_if<EncodeJob>(&job);
    const bool waits =
        encode != nullptr && stepping && !encode->at_once && step < encode->not_before;
    (waits ? waiting : due).push_back(std::move(job));
  }
  jobs_ = std::move(waiting);
  return due;
}

}  // namespace starling::exchange
