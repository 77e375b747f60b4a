// The thread that owns a peer's replica: runs its worker, takes jobs and returns outcomes.
#pragma once

#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "base/result.hpp"
#include "io/trainer_port.hpp"
#include "peer/worker.hpp"

namespace starling::io {

/// The error of a peer whose replica or trainer runs out of memory.
[[nodiscard]] base::Error out_of_memory();

class TrainerThread {
 public:
  /// Makes the worker; called on the new thread, because a trainer belongs to the thread that
  /// compiled its model.
  using MakeWorker = std::function<base::Result<std::unique_ptr<peer::Worker>>()>;

  /// Starts the thread. When `port`, which outlives this, is closed, it ends after its current job.
  /// If memory runs out, it returns out_of_memory() as an outcome, and ends.
  TrainerThread(TrainerPort& port, MakeWorker make);
  /// Closes the port and waits for the thread.
  ~TrainerThread();
  TrainerThread(const TrainerThread&) = delete;
  TrainerThread& operator=(const TrainerThread&) = delete;

 private:
  void run();
  void work(std::vector<peer::Outcome>& outcomes);

  TrainerPort& port_;
  MakeWorker make_;
  std::thread thread_;
};

}  // namespace starling::io
