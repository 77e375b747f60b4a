// What the loop thread and the thread that owns the replica share: jobs one way, outcomes the
// other.
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
  /// `wake` makes the loop thread look at what take() and asked_to_leave() give; it must be safe
  /// from any thread, and is not called any more once close() has returned.
  explicit TrainerPort(std::function<void()> wake) : wake_(std::move(wake)) {}
  TrainerPort(const TrainerPort&) = delete;
  TrainerPort& operator=(const TrainerPort&) = delete;

  /// Hands a job over; of the exchange's, those that wait and that it makes needless are dropped
  /// (exchange::precedence). Loop thread.
  void submit(peer::Job job);
  /// The oldest outcome, if any. Loop thread.
  [[nodiscard]] std::optional<peer::Outcome> take() { return outcomes_.try_pop(); }
  /// Whether leave() was called since this was asked last. Loop thread.
  [[nodiscard]] bool asked_to_leave() { return leaving_.exchange(false); }

  /// The next job where one waits. Thread of the replica.
  [[nodiscard]] std::optional<peer::Job> try_next();
  /// The next job; waits for one. Nothing once this is closed. Thread of the replica.
  [[nodiscard]] std::optional<peer::Job> next();
  /// Hands outcomes back, and empties the vector. Thread of the replica.
  void hand_back(std::vector<peer::Outcome>& outcomes);

  /// Asks the peer to save, say goodbye and end. Any thread.
  void leave();
  /// Ends both: what waits is dropped. Any thread, any number of times.
  void close();
  [[nodiscard]] bool closed() const noexcept { return closed_; }

 private:
  void wake();

  std::mutex waking_;  ///< guards wake_
  std::function<void()> wake_;
  base::BoundedQueue<peer::Job> jobs_{peer::kJobsMax};
  /// A job has one outcome at most, so this can't overflow before jobs_ does.
  base::BoundedQueue<peer::Outcome> outcomes_{2 * peer::kJobsMax};
  std::atomic<bool> leaving_ = false;
  std::atomic<bool> closed_ = false;
};

}  // namespace starling::io
