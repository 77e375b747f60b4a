// The side of a peer that owns the replica: runs its jobs one after the other, exchange before
// training. So encodes and commits happen between two steps, and wait for one step, one batch of an
// evaluation or one checkpoint, which is written and synced as a whole. No thread, clock or lock in
// here: who calls decides.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "data/loader.hpp"
#include "data/sample_set.hpp"
#include "exchange/job_queue.hpp"
#include "exchange/replica.hpp"
#include "peer/jobs.hpp"
#include "ring/outer_step.hpp"
#include "train/trainer.hpp"

namespace starling::peer {

class Worker {
 public:
  /// `loader` and `test` outlive this. `replica` lies where `trainer` trains. `first_step`,
  /// `first_samples`: done before, from a checkpoint.
  /// Every method on the thread that created `trainer`.
  Worker(train::Trainer trainer, exchange::Replica replica, data::Loader& loader,
         const data::SampleSet& test, Saver saver, base::StepNumber first_step,
         std::uint64_t first_samples);

  void submit(Job job);

  /// Does what is due next: all exchange jobs that are due, or else a piece of the oldest other
  /// job (a step, a batch of an evaluation). Appends what came of it. False: nothing
  /// was due.
  bool work(std::vector<Outcome>& outcomes);

  [[nodiscard]] const exchange::Replica& replica() const noexcept { return replica_; }

 private:
  Outcome run_step(float lr);
  base::Result<float> run_resident_step(const data::BatchBuffer& batch, float lr);
  void tell_if_slow(std::vector<Outcome>& outcomes);
  Outcome run_gradient();
  Outcome run_apply(const ApplyJob& job);
  Outcome run_outer_gradient();
  Outcome run_outer_step(const OuterStepJob& job);
  void run_evaluation(std::vector<Outcome>& outcomes);

  /// An evaluation under way: parameters and buffers are a copy, so exchanges go on meanwhile, and
  /// no step is made.
  struct Evaluation {
    std::uint32_t samples = 0;
    std::uint32_t done = 0;
    double correct = 0;
    double loss = 0;
  };

  train::Trainer trainer_;
  exchange::Replica replica_;
  data::Loader& loader_;
  const data::SampleSet& test_;
  Saver saver_;
  base::StepNumber step_;
  std::uint64_t samples_;                   ///< in the steps
  std::optional<data::BatchBuffer> ahead_;  ///< the next step's batch, on its way to the device
  std::uint32_t batch_samples_ = 0;         ///< of the gradient that waits for its mean
  float batch_loss_ = 0;
  std::optional<ring::OuterStep> outer_;  ///< local training
  exchange::JobQueue exchange_jobs_;
  std::deque<Job> jobs_;
  Turns turns_;
  std::vector<float> copy_;          ///< x, for evaluations and checkpoints
  std::vector<float> buffers_copy_;  ///< for an evaluation
  bool evaluating_ = false;
  bool told_slow_ = false;
  Evaluation evaluation_;
  data::BatchBuffer tested_;
};

}  // namespace starling::peer
