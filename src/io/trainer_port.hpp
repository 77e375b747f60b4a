// Connects the loop thread and the thread that owns the replica: jobs one way, outcomes the other.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <optional>
#include <vector>

#include "base/bounded_queue.hpp"
#include "peer/jobs.hpp"

namespace starling::io {

class TrainerPort {
 public:
  /// `wake` makes the loop thread call take() and asked_to_leave(); it must be safe from any
  /// thread, and is never called once close() has returned.
  explicit TrainerPort(std::function<void()> wake) : wake_(std::move(wake)) {}
  TrainerPort(const TrainerPort&) = delete;
  TrainerPort& operator=(const TrainerPort&) = delete;

  /// Passes on a job; waiting exchange jobs that it makes unnecessary are dropped
  /// (exchange::precedence). Loop thread.
  void submit(peer::Job job);
  /// The oldest outcome, if any. Loop thread.
  [[nodiscard]] std::optional<peer::Outcome> take() { return outcomes_.try_pop(); }
  /// Whether leave() was called since the last call of this. Loop thread.
  [[nodiscard]] bool asked_to_leave() { return leaving_.exchange(false); }

  /// The next job, if one waits. Thread of the replica.
  [[nodiscard]] std::optional<peer::Job> try_next();
  /// The next job; waits for one. Nothing once this is closed. Thread of the replica.
  [[nodiscard]] std::optional<peer::Job> next();
  /// Passes outcomes back, and empties the vector. Thread of the replica.
  void hand_back(std::vector<peer::Outcome>& outcomes);

  /// Asks the peer to save, say goodbye and end. Any thread.
  void leave();
  /// Ends both: waiting jobs and outcomes are dropped. Any thread, any number of times.
  void close();
  [[nodiscard]] bool closed() const noexcept { return closed_; }

 private:
  void wake();

  std::mutex waking_;  ///< guards wake_
  std::function<void()> wake_;
  base::BoundedQueue<peer::Job> jobs_{peer::kJobsMax};
  /// A job has at most one outcome, so this can't overflow before jobs_ does.
  base::BoundedQueue<peer::Outcome> outcomes_{2 * peer::kJobsMax};
  std::atomic<bool> leaving_ = false;
  std::atomic<bool> closed_ = false;
};

}  // namespace starling::io
