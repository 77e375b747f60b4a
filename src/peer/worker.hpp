// The side of a peer that owns the replica: runs its jobs one after the other, exchange before
// training. So encodes and commits happen between two steps, and wait for one step, one batch of an
// evaluation or one checkpoint, which is written and synced as a whole. No thread, clock or lock in
// here: the caller decides. Real and simulated peers have the same worker, with other learners.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "base/bound.hpp"
#include "exchange/job_queue.hpp"
#include "exchange/replica.hpp"
#include "peer/audits.hpp"
#include "peer/jobs.hpp"
#include "peer/learner.hpp"
#include "ring/outer_step.hpp"

namespace starling::peer {

class Worker {
 public:
  /// `first_step`, `first_samples`: steps and samples trained before, from a checkpoint.
  /// `observer`, which may be null, outlives this and sees all exchange jobs; `conduct`, likewise,
  /// runs them, where the peer is not honest.
  /// Every method on the thread that created `learner`.
  Worker(std::unique_ptr<Learner> learner, exchange::Replica replica, Saver saver,
         base::StepNumber first_step, std::uint64_t first_samples,
         ExchangeObserver* observer = nullptr, Conduct* conduct = nullptr);

  /// From now on, neighbours' replicas are tried on this peer's data. `interchangeable`: all peers
  /// train on the same kind of samples.
  void begin_audits(bool interchangeable);

  void submit(Job job);

  /// Does what is due next: all exchange jobs that are due, or else a piece of the oldest other
  /// job (a step, a batch of an evaluation). Appends the outcomes. False: nothing was due.
  bool work(std::vector<Outcome>& outcomes);

  [[nodiscard]] const exchange::Replica& replica() const noexcept { return replica_; }
  /// Jobs that wait.
  [[nodiscard]] std::size_t waiting() const noexcept {
    return jobs_.size() + exchange_jobs_.size();
  }
  void add_bounds(base::Bounds& out) const;

 private:
  Outcome run_step(float lr);
  void audit_if_due(std::vector<Outcome>& outcomes);
  base::Result<exchange::Audited> audit(std::span<const exchange::Pulling> neighbours);
  Outcome run_gradient();
  Outcome run_apply(const ApplyJob& job);
  Outcome run_outer_gradient();
  Outcome run_outer_step(const OuterStepJob& job);
  Outcome count(const Trained& batch);
  void run_evaluation(std::vector<Outcome>& outcomes);
  void tell_if_slow(std::vector<Outcome>& outcomes);

  std::unique_ptr<Learner> learner_;
  exchange::Replica replica_;
  Saver saver_;
  ExchangeObserver* observer_;
  Conduct* conduct_;
  base::StepNumber step_;
  std::uint64_t samples_;                 ///< in the steps
  Trained halfway_;                       ///< the batch of the gradient that waits for its mean
  std::optional<ring::OuterStep> outer_;  ///< local training
  std::optional<Audits> audits_;          ///< of neighbours
  exchange::JobQueue exchange_jobs_;
  std::deque<Job> jobs_;
  Turns turns_;
  std::vector<float> copy_;  ///< x, for checkpoints and audits
  bool evaluating_ = false;
  bool told_slow_ = false;
};

}  // namespace starling::peer
