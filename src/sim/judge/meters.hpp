// Meters that add up values over a run. The simulator's checks and the judge of real runs both
// report to them. Times are seconds since the start and never decrease.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "sim/language/scenario.hpp"

namespace starling::sim {

/// For this long after the last start, tables and links are still being filled.
inline constexpr double kJoinSeconds = 30;
/// A minute, minus the delay with which a change may be seen.
inline constexpr double kVerdictWindow = 59;
/// Drift is back when it is at most this much of what it was before the first fault.
inline constexpr double kDriftBack = 1.1;

/// The pace of peers while nothing holds them up.
class Pace {
 public:
  /// The time between two steps of a peer, or from its last step to the event that ends its steps.
  /// `batches_per_second`: the rate that its speed allows.
  void gap(double seconds, double batches_per_second);
  /// Samples of the step at the end of a gap.
  void add(std::uint64_t samples) { samples_ += samples; }

  /// Nothing: there were no two steps in a row.
  [[nodiscard]] std::optional<double> longest_gap() const;
  /// Batches as a fraction of those that the peers' speeds allow; nothing: there were none. A
  /// smaller batch (train.batch_min) counts as a fraction of a batch.
  [[nodiscard]] std::optional<double> throughput(std::uint32_t batch) const;

 private:
  double gap_ = 0;
  double possible_ = 0;  ///< batches
  std::uint64_t samples_ = 0;
};

/// Rates at which peers send bytes for membership once their tables are filled.
class MembershipRates {
 public:
  /// `last_start`: in the plan.
  explicit MembershipRates(double last_start) : last_start_(last_start) {}

  /// A peer that was started at `started` has sent `bytes` since then.
  void told(std::uint32_t peer, double started, std::uint64_t bytes, double now);
  /// The highest rate of any peer, in bytes a second; nothing: no peer ran for long enough.
  [[nodiscard]] std::optional<double> most() const;

 private:
  struct Quiet {
    double started = 0;  ///< of this life
    double since = 0;
    std::uint64_t bytes = 0;
  };

  double last_start_;
  std::map<std::uint32_t, Quiet> quiet_;   ///< by peer
  std::map<std::uint32_t, double> rates_;  ///< by peer: of its last long enough life
};

/// How often tables change their mind about one peer, between alive and dead.
class MindChanges {
 public:
  /// Whether this is the first time since forget() that the observer is heard to know the subject.
  bool meets(std::uint32_t observer, std::uint32_t subject) {
    return times_.try_emplace({observer, subject}).second;
  }
  void change(std::uint32_t observer, std::uint32_t subject, double now);
  /// The observer has started again.
  void forget(std::uint32_t observer);
  /// The most changes about one subject in one table within kVerdictWindow.
  [[nodiscard]] std::uint64_t most() const noexcept { return most_; }

 private:
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::vector<double>> times_;
  std::uint64_t most_ = 0;
};

/// How soon peers are linked as a scenario expects. Measures only what the scenario expects.
class PairTimes {
 public:
  /// How two peers are linked; nothing: they have no link.
  using PathOf = std::function<std::optional<LinkPath>(std::uint32_t, std::uint32_t)>;

  /// `scenario` outlives this.
  explicit PairTimes(const Scenario& scenario);

  /// `since`: seconds at which the measured time begins. `running`: peers that run and have a
  /// replica.
  void look(double since, const std::vector<std::uint32_t>& running, const PathOf& path_of);
  /// Time until any two running peers had a link.
  [[nodiscard]] std::optional<double> linked_within() const noexcept { return linked_; }
  /// Time until all links had the paths of Scenario::paths.
  [[nodiscard]] std::optional<double> paths_within() const noexcept { return paths_; }

 private:
  const Scenario& scenario_;
  const bool expects_linked_, expects_paths_;
  std::optional<double> linked_, paths_;
};

}  // namespace starling::sim
