// The counterpart of peer::Worker for a program that trains by itself: the side of a peer that owns
// the replica. It returns to the program for each step.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "base/strong.hpp"
#include "base/time.hpp"
#include "data/sample_order.hpp"
#include "exchange/job_queue.hpp"
#include "exchange/replica.hpp"
#include "io/trainer_port.hpp"
#include "peer/jobs.hpp"
#include "peer/worker.hpp"
#include "starling/peer.hpp"

namespace starling::embed {

/// Used by one thread, which is the trainer's side of `port`.
class Worker {
 public:
  /// `evaluate` may be empty. `batch`: samples of a step at first. `first_step`, `first_samples`:
  /// steps and samples done before, from a checkpoint.
  Worker(io::TrainerPort& port, exchange::Replica replica, data::SampleOrder order,
         std::uint32_t batch, Evaluate evaluate, peer::Saver saver, base::StepNumber first_step,
         std::uint64_t first_samples);

  /// Waits for jobs and runs them until a step is due. Returns nothing once the port is closed.
  /// Precondition: the last step is done.
  [[nodiscard]] std::optional<Step> next_step();
  /// Precondition: a step is under way.
  void step_done(float loss);
  [[nodiscard]] bool stepping() const noexcept { return stepping_; }

  [[nodiscard]] exchange::Replica& replica() noexcept { return replica_; }
  [[nodiscard]] const exchange::Replica& replica() const noexcept { return replica_; }

 private:
  void submit(peer::Job job);
  /// Runs waiting exchange jobs into outcomes_; false if there are none.
  bool exchange();
  std::optional<Step> run(const peer::Job& job);
  Step begin_step(float learning_rate);
  void run_evaluation(std::uint32_t samples);
  void hand_back(peer::Outcome outcome);

  io::TrainerPort& port_;
  exchange::Replica replica_;
  data::SampleOrder order_;
  std::uint32_t batch_;
  Evaluate evaluate_;
  peer::Saver saver_;
  base::StepNumber step_;
  std::uint64_t trained_;  ///< samples, in the steps
  bool stepping_ = false;
  bool failed_ = false;
  base::Time began_;  ///< the step under way
  exchange::JobQueue exchange_jobs_;
  std::deque<peer::Job> jobs_;
  peer::Turns turns_;
  std::vector<peer::Outcome> outcomes_;
  std::vector<std::uint32_t> samples_;  ///< of the step under way
  std::vector<float> copy_;             ///< x, for evaluations and checkpoints
};

}  // namespace starling::embed
