// The jobs of the side that owns the replica, and their outcomes. Values: in the real
// world they cross to the trainer thread and back over bounded queues, elsewhere they are run
// inline.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <span>
#include <variant>
#include <vector>

#include "base/log_entry.hpp"
#include "base/result.hpp"
#include "base/sample_counter.hpp"
#include "base/strong.hpp"
#include "base/time.hpp"
#include "exchange/job_queue.hpp"
#include "exchange/jobs.hpp"

namespace starling::train {
class UpdateRule;
}

namespace starling::peer {

class Conduct;

/// One optimizer step on the next batch.
struct StepJob {
  float lr = 0;
};

/// The first half of a step: the gradient of the next batch, for the all-reduce. Vectors of the
/// all-reduce are gradients with the buffers after the step behind them.
struct GradientJob {};

/// The second half: applies the swarm's mean gradient and takes its mean buffers.
struct ApplyJob {
  std::vector<float> mean;  ///< of gradients and buffers
  float lr = 0;
};

/// Local training (ring::OuterStep): the first round begins with the replica as it is.
struct AnchorJob {
  float lr = 0;
  float momentum = 0;
};

/// The outer gradient (DiLoCo, arXiv:2311.08105): what the steps of a round have moved the replica
/// by, with the buffers behind it.
struct OuterGradientJob {};

/// Ends a round: takes the swarm's mean of both.
struct OuterStepJob {
  std::vector<float> mean;
};

/// Accuracy and loss of the replica as it is when the job starts.
struct EvaluateJob {
  std::uint32_t samples = 0;  ///< of the test set, spread over it; 0: all
};

/// Writes a checkpoint of the replica as it is when the job starts.
struct SaveJob {
  // For the checkpoint's state.
  double progress = 0;                        ///< of the swarm, 0 to 1
  std::optional<std::int8_t> weight{};        ///< of this peer in averages, where it is measured
  std::vector<base::SampleCounter> others{};  ///< counters of the other peers
  std::uint64_t own_prefix = 0;               ///< prefix of this peer's id
  std::uint64_t recalled = 0;                 ///< part of its counter that its samples do not have

  /// Counters of all peers, where this one has trained `samples`: those of the same moment as the
  /// replica.
  [[nodiscard]] std::vector<base::SampleCounter> counters(std::uint64_t samples) const;
};

/// Trains on these shards from now on, in batches of so many samples.
struct ShardsJob {
  std::vector<std::uint32_t> owned;
  std::uint32_t batch = 1;
};

using Job = std::variant<StepJob, GradientJob, ApplyJob, AnchorJob, OuterGradientJob, OuterStepJob,
                         EvaluateJob, SaveJob, ShardsJob, exchange::Job>;

struct StepDone {
  base::StepNumber step;      ///< steps done, this one included
  std::uint32_t samples = 0;  ///< in its batch
  float loss = 0;             ///< mean training loss of the batch, nats
  base::Duration took{};      ///< to compute
};

struct GradientReady {
  base::StepNumber step;  ///< the step that this gradient is for
  std::uint32_t samples = 0;
  float loss = 0;
  std::vector<float> gradient;  ///< and buffers
};

struct OuterGradient {
  std::vector<float> values;  ///< the start of the round less the replica, and buffers
};

struct OuterStepDone {};

struct Evaluated {
  std::uint32_t samples = 0;  ///< of the test set that were used
  bool whole = false;
  double accuracy = 0;  ///< 0 to 1; NaN: there is none, since samples have targets, not labels
  double loss = 0;
};

/// The trainer has nothing to evaluate with.
struct NotEvaluated {};

struct Saved {
  base::StepNumber step;
  base::Status status;
};

/// The device failed or training diverged: this peer cannot go on.
struct Failed {
  base::Error error;
};

using Outcome = std::variant<StepDone, GradientReady, OuterGradient, OuterStepDone, Evaluated,
                             NotEvaluated, Saved, Failed, base::LogEntry, exchange::Outcome>;

/// Steps handed to the trainer ahead of time, so that it never waits for the event loop.
inline constexpr std::uint32_t kStepsAhead = 2;
/// Checkpoints asked for: by time or by a person, at the end, and when leaving.
inline constexpr std::uint32_t kSavesMax = 3;
/// And evaluations: one on the way, one at the end.
inline constexpr std::uint32_t kEvaluationsMax = 2;
inline constexpr std::size_t kTrainingJobsMax = kStepsAhead + kSavesMax + kEvaluationsMax;

/// Jobs that may wait at once for the owner of the replica. A peer gives far fewer
/// (kTrainingJobsMax of training, exchange::kJobsMax of links), so reaching it is a bug.
inline constexpr std::size_t kJobsMax = 1024;

/// The content of a checkpoint; views live for the call alone.
struct Snapshot {
  std::span<const float> parameters{};  ///< x, not y
  std::span<const float> buffers{};
  train::UpdateRule* rule = nullptr;  ///< null: another program has the optimizer
  base::StepNumber step;
  std::uint64_t samples = 0;            ///< trained by this peer
  double progress = 0;                  ///< of the swarm, 0 to 1
  std::optional<std::int8_t> weight{};  ///< of this peer in averages, where it is measured
  std::span<const base::SampleCounter> counters{};
};

using Saver = std::function<base::Status(const Snapshot&)>;

/// Gives `saver` the replica as it is, and of `trained` rule, step and samples. `copy` has room for
/// its parameters. Saved, also where the saver fails or, as `diverged`, parameters or buffers are
/// not finite: then the saver is not called, and what was saved before stays. Failed: the device.
[[nodiscard]] Outcome save(const SaveJob& job, const exchange::Replica& replica,
                           const Snapshot& trained, std::span<float> copy, const Saver& saver);

/// Sees each batch of exchange jobs before and after it runs.
class ExchangeObserver {
 public:
  virtual ~ExchangeObserver() = default;
  virtual void before(std::span<const exchange::Job> due, const exchange::Replica& replica) = 0;
  virtual void after(std::span<const exchange::Job> due, const exchange::Replica& replica,
                     std::span<const exchange::Outcome> outcomes) = 0;
};

/// Runs the jobs that are due once `step` steps are made, and appends their outcomes. `observer`
/// may be null, and so may `conduct`: the peer is honest. False: nothing was due.
bool run_exchange(exchange::JobQueue& jobs, exchange::Replica& replica, base::StepNumber step,
                  std::vector<Outcome>& outcomes, ExchangeObserver* observer = nullptr,
                  Conduct* conduct = nullptr);

/// Whose turn it is at the owner of a replica: that of the exchange, for which others wait, but a
/// neighbour that asks without end does not keep this peer from training.
class Turns {
 public:
  /// Batches of the exchange's jobs in a row while others wait: as many as eight links have between
  /// two steps where each delta and each commit comes alone.
  static constexpr int kExchangesMax = 16;

  /// Where it is the exchange's turn, does `run` what is due of it, and says whether that is
  /// anything. `others_wait`: jobs that are not of the exchange.
  template <class Run>
  [[nodiscard]] bool exchange(bool others_wait, Run&& run) {
    const bool exchanged = (!others_wait || exchanges_ < kExchangesMax) && run();
    exchanges_ = exchanged ? std::min(exchanges_ + 1, kExchangesMax) : 0;
    return exchanged;
  }

 private:
  int exchanges_ = 0;  ///< in a row
};

/// Notes that these, in equal parts, took the owner of the replica so long.
void note_time(std::span<Outcome> outcomes, base::Duration took);

}  // namespace starling::peer
