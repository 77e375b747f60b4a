// The trainer's side of a simulated peer: runs its jobs one after the other, exchange before
// training, as peer::Worker does, and says how long each took. Beside that it keeps what the
// checks need: which exchanges were committed, and what they did to the replica.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/bound.hpp"
#include "base/time.hpp"
#include "exchange/job_queue.hpp"
#include "exchange/replica.hpp"
#include "peer/jobs.hpp"
#include "ring/outer_step.hpp"
#include "sim/folder.hpp"
#include "sim/learner.hpp"

namespace starling::sim {

/// Larger replicas are looked at after one exchange of kLargeEvery.
inline constexpr std::size_t kSmallReplica = 4096;
inline constexpr std::uint64_t kLargeEvery = 16;

/// A link's exchange as this end's replica has it.
struct LinkLedger {
  /// Names the opening: the same at both ends, another after each opening.
  std::uint64_t opening = 0;
  std::uint64_t serial = 0;  ///< of the opening, at this end
  base::ExchangeNumber committed;
  /// What the last commit added to the sum of this replica's elements, momentum aside; nothing
  /// where it was applied together with others or not looked at.
  std::optional<double> moved;
  /// By what all commits since the opening moved that sum, as their mirrors say, and all but the
  /// last one; nothing once one of them was not looked at.
  std::optional<double> sum = 0;
  std::optional<double> sum_before = 0;
  double momentum = 0;  ///< sum of the elements of the link's momentum
};

class Worker {
 public:
  /// `folder` outlives this. `step`: of virtual time, for a training step on a whole `batch`.
  Worker(std::unique_ptr<Learner> learner, exchange::Replica replica, Folder& folder,
         base::StepNumber first_step, std::uint64_t first_samples, base::Duration step,
         std::uint32_t batch);

  void submit(peer::Job job);
  /// Before a job that sets the mirrors with `peer`: the link, the same number at both ends, on
  /// which it does. A later job of this kind drops one that waits, so they are counted here.
  void opens_on(const base::PeerId& peer, std::uint64_t link) {
    auto& [on, times] = opens_on_[peer];
    times = on == link ? times + 1 : 1;
    on = link;
  }
  /// Jobs that wait.
  [[nodiscard]] std::size_t waiting() const noexcept {
    return jobs_.size() + exchange_jobs_.size();
  }
  void add_bounds(base::Bounds& out) const;
  /// Begins what is due next; nothing where nothing is. finish() after the time it takes.
  [[nodiscard]] std::optional<base::Duration> begin();
  [[nodiscard]] std::vector<peer::Outcome> finish();

  [[nodiscard]] const exchange::Replica& replica() const noexcept { return replica_; }
  [[nodiscard]] const std::map<base::PeerId, LinkLedger>& ledger() const noexcept {
    return ledger_;
  }
  /// The first breach of the exchange's rules; empty: none.
  [[nodiscard]] const std::string& breach() const noexcept { return breach_; }
  /// Links whose exchange was committed since the last call.
  [[nodiscard]] std::vector<base::PeerId> take_committed() { return std::exchange(committed_, {}); }
  [[nodiscard]] base::StepNumber step() const noexcept { return step_; }
  /// That this peer trains on, as it was told last.
  [[nodiscard]] const std::vector<std::uint32_t>& shards() const noexcept { return shards_; }
  /// Loss of the last step.
  [[nodiscard]] double loss() const noexcept { return loss_; }
  [[nodiscard]] const std::optional<peer::Evaluated>& evaluated() const noexcept {
    return evaluated_;
  }

 private:
  base::Duration run_exchange(std::vector<exchange::Job> due);
  base::Duration run_job(const peer::Job& job);
  /// Says so; the time that what failed took.
  base::Duration failed(const base::Error& error);
  base::Duration run_step(float lr);
  base::Duration run_gradient();
  base::Duration run_evaluation(const peer::EvaluateJob& job);
  base::Duration run_save(const peer::SaveJob& job);
  void note_opening(const exchange::OpenJob& job);
  /// Of what a batch moved, a commit's part.
  struct Share {
    double moved = 0;
    double size = 0;   ///< of what was added up: how far it may be off for rounding
    double ahead = 0;  ///< by its link's momentum, beside `moved`
  };
  using Tags = std::set<exchange::JobTag>;
  using Shares = std::map<exchange::JobTag, Share>;
  [[nodiscard]] std::optional<Share> share_of(const exchange::CommitJob& commit) const;
  [[nodiscard]] Shares shares_of(const std::vector<exchange::Job>& due) const;
  [[nodiscard]] double momentum_after(const exchange::CommitJob& commit) const;
  void check_ledger(const std::vector<exchange::Job>& due, const Tags& applied, double moved,
                    const Shares& shares);
  void check_adoption(const exchange::OpenJob& job);
  void note_commits(const std::vector<exchange::Job>& due, const Tags& applied,
                    std::optional<double> moved, const Shares& shares);
  /// Into scratch_.
  void read_replica();
  /// Of the replica's elements.
  [[nodiscard]] double sum();

  std::unique_ptr<Learner> learner_;
  exchange::Replica replica_;
  Folder& folder_;
  base::StepNumber step_;
  std::uint64_t samples_;  ///< in the steps
  base::Duration step_time_;
  std::uint32_t whole_batch_;
  std::uint32_t batch_;  ///< samples of the next steps
  std::optional<ring::OuterStep> outer_;
  exchange::JobQueue exchange_jobs_;
  std::deque<peer::Job> jobs_;
  peer::Turns turns_;
  bool busy_ = false;
  std::vector<peer::Outcome> outcomes_;  ///< of what is under way
  std::optional<Checkpoint> writing_;
  std::vector<float> scratch_;
  std::vector<float> gradient_;
  std::uint32_t gradient_samples_ = 0;
  float gradient_loss_ = 0;
  std::map<base::PeerId, LinkLedger> ledger_;
  std::vector<base::PeerId> committed_;
  std::uint64_t batches_ = 0;
  std::uint64_t openings_ = 0;
  /// Of each peer: the link, and how often mirrors were set on it.
  std::map<base::PeerId, std::pair<std::uint64_t, std::uint64_t>> opens_on_;
  double loss_ = 0;
  std::optional<peer::Evaluated> evaluated_;
  std::string breach_;
  std::vector<std::uint32_t> shards_;
};

}  // namespace starling::sim
