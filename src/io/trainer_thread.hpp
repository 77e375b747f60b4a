// The thread that owns a peer's replica: runs its worker, takes jobs and hands outcomes back.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "base/bounded_queue.hpp"
#include "base/result.hpp"
#include "peer/worker.hpp"

namespace starling::io {

class TrainerThread {
 public:
  /// Makes the worker; called on the new thread, because a trainer belongs to the thread that
  /// compiled its model.
  using MakeWorker = std::function<base::Result<std::unique_ptr<peer::Worker>>()>;

  /// Starts the thread. `wake` is called on it whenever outcomes wait to be taken; it must be safe
  /// from any thread.
  TrainerThread(MakeWorker make, std::function<void()> wake);
  /// stop().
  ~TrainerThread();
  TrainerThread(const TrainerThread&) = delete;
  TrainerThread& operator=(const TrainerThread&) = delete;

  /// Hands a job over. Loop thread.
  void submit(peer::Job job);
  /// The oldest outcome, if any. Loop thread.
  [[nodiscard]] std::optional<peer::Outcome> take() { return outcomes_.try_pop(); }
  /// Ends the thread after the job it is at; what waits is dropped. Any number of times.
  void stop();

 private:
  void run();
  void hand_back(std::vector<peer::Outcome>& outcomes);

  MakeWorker make_;
  std::function<void()> wake_;
  base::BoundedQueue<peer::Job> jobs_{peer::Worker::kJobsMax};
  /// Every job has one outcome, so this can't overflow before jobs_ does.
  base::BoundedQueue<peer::Outcome> outcomes_{2 * peer::Worker::kJobsMax};
  std::atomic<bool> stopping_ = false;
  std::thread thread_;
};

}  // namespace starling::io
