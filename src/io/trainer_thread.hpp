// The thread that owns a peer's replica: runs its worker, takes jobs and hands outcomes back.
#pragma once

#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "base/result.hpp"
#include "io/trainer_port.hpp"
#include "peer/worker.hpp"

namespace starling::io {

/// What a peer fails with whose replica or trainer finds no memory.
[[nodiscard]] base::Error out_of_memory();

class TrainerThread {
 public:
  /// Makes the worker; called on the new thread, because a trainer belongs to the thread that
  /// compiled its model.
  using MakeWorker = std::function<base::Result<std::unique_ptr<peer::Worker>>()>;

  /// Starts the thread. It ends after the job that it is at when `port`, which outlives this, is
  /// closed. Where memory runs out it hands back out_of_memory(), and
  /// ends.
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
