// A simulated peer's worker, with the virtual time that its jobs take.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/bound.hpp"
#include "base/time.hpp"
#include "exchange/replica.hpp"
#include "peer/conduct.hpp"
#include "peer/jobs.hpp"
#include "peer/learner.hpp"
#include "peer/worker.hpp"
#include "sim/folder.hpp"
#include "sim/ledger.hpp"

namespace starling::sim {

class TimedWorker {
 public:
  /// Continues from the folder's newest whole checkpoint; `learner` and `replica` already have its
  /// state. `folder` and `conduct`, which may be null, outlive this. `step`: virtual time of a
  /// training step on a whole `batch`.
  TimedWorker(std::unique_ptr<peer::Learner> learner, exchange::Replica replica, Folder& folder,
              base::StepNumber first_step, std::uint64_t first_samples, base::Duration step,
              std::uint32_t batch, peer::Conduct* conduct = nullptr);
  TimedWorker(const TimedWorker&) = delete;
  TimedWorker& operator=(const TimedWorker&) = delete;

  /// As peer::Worker's.
  void begin_audits(bool interchangeable) { worker_.begin_audits(interchangeable); }
  void submit(peer::Job job);
  /// Begins the next job that is due; nothing if there is none. Call finish() after the time it
  /// takes.
  [[nodiscard]] std::optional<base::Duration> begin();
  [[nodiscard]] std::vector<peer::Outcome> finish();

  [[nodiscard]] Ledger& ledger() noexcept { return ledger_; }
  [[nodiscard]] const Ledger& ledger() const noexcept { return ledger_; }
  [[nodiscard]] const exchange::Replica& replica() const noexcept { return worker_.replica(); }
  [[nodiscard]] std::size_t waiting() const noexcept { return worker_.waiting(); }
  void add_bounds(base::Bounds& out) const;
  [[nodiscard]] base::StepNumber step() const noexcept { return step_; }
  /// The shards that this peer trains on, as it was last told.
  [[nodiscard]] const std::vector<std::uint32_t>& shards() const noexcept { return shards_; }
  [[nodiscard]] const std::optional<peer::Evaluated>& evaluated() const noexcept {
    return evaluated_;
  }

 private:
  peer::Worker make_worker(std::unique_ptr<peer::Learner> learner, exchange::Replica replica,
                           std::uint64_t samples, peer::Conduct* conduct);
  /// Notes what the outcomes say, and returns how long it took to make them.
  base::Duration look_at(const std::vector<peer::Outcome>& outcomes);

  Folder& folder_;
  base::StepNumber step_;
  base::Duration step_time_;
  std::uint32_t whole_batch_;
  std::uint32_t batch_;  ///< samples of the next steps
  std::vector<std::uint32_t> shards_;
  std::optional<peer::Evaluated> evaluated_;
  bool halfway_ = false;  ///< a gradient waits for its mean
  bool busy_ = false;
  std::vector<peer::Outcome> outcomes_;  ///< of the current job
  std::optional<Checkpoint> writing_;
  Ledger ledger_;
  peer::Worker worker_;
};

}  // namespace starling::sim
