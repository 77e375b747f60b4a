// The jobs that wait at the trainer's side, and which of them are due at a step boundary.
#pragma once

#include <vector>

#include "exchange/jobs.hpp"

namespace starling::exchange {

/// Jobs held at once: a link has few under way, so more is a bug (ASSERT).
inline constexpr std::size_t kJobsMax = 1024;

/// First in, first out, but for deltas whose step has not come: those wait without holding up
/// others. A waiting delta is dropped, without an outcome, when a later job for the same link
/// suspends, closes or opens it, or asks for a delta again. One thread (the replica's owner's).
class JobQueue {
 public:
  void push(Job job);
  /// Takes what is due once `step` steps are made, in order. `stepping` false: no more steps are
  /// made for now, so nothing waits.
  [[nodiscard]] std::vector<Job> take(base::StepNumber step, bool stepping);
  [[nodiscard]] bool empty() const noexcept { return jobs_.empty(); }
  [[nodiscard]] std::size_t size() const noexcept { return jobs_.size(); }

 private:
  std::vector<Job> jobs_;
};

}  // namespace starling::exchange
