// What adds up over a run, in either world: the simulator's checks and the judge of real runs tell
// it what they see. Times are seconds since the start and never decrease.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "sim/language/scenario.hpp"

namespace starling::sim {

/// After the last start tables and links are still filled for so long.
inline constexpr double kJoinSeconds = 30;
/// A minute, less what a change may be seen late by.
inline constexpr double kVerdictWindow = 59;
/// Drift is back when it is at most this much of what it was before the first fault.
inline constexpr double kDriftBack = 1.1;

/// The pace of peers that nothing holds up.
class Pace {
 public:
  /// The time between two steps of a peer, or from the last one to what ends its steps.
  /// `batches_per_second`: what its speed allows.
  void gap(double seconds, double batches_per_second);
  /// Samples of the step at the end of a gap.
  void add(std::uint64_t samples) { samples_ += samples; }

  /// Nothing: no step came after another.
  [[nodiscard]] std::optional<double> longest_gap() const;
  /// Batches as part of those that the peers' speeds allow; nothing: there were none. A smaller
  /// batch (train.batch_min) counts as the part that it is.
  [[nodiscard]] std::optional<double> throughput(std::uint32_t batch) const;

 private:
  double gap_ = 0;
  double possible_ = 0;  ///< batches
  std::uint64_t samples_ = 0;
};

/// Rates at which peers send bytes for membership once their tables are filled.
class MembershipRates {
 public:
  /// `last_start`: of the plan.
  explicit MembershipRates(double last_start) : last_start_(last_start) {}

  /// A peer that was started at `started` has sent so many bytes since.
  void told(std::uint32_t peer, double started, std::uint64_t bytes, double now);
  /// The most of all peers, in bytes a second; nothing: none ran for long enough.
  [[nodiscard]] std::optional<double> most() const;

 private:
  struct Quiet {
    double started = 0;  ///< the life that it is of
    double since = 0;
    std::uint64_t bytes = 0;
  };

  double last_start_;
  std::map<std::uint32_t, Quiet> quiet_;   ///< by peer
  std::map<std::uint32_t, double> rates_;  ///< by peer: of its last life that was long enough
};

/// How often tables change their mind, between alive and dead, about one peer.
class MindChanges {
 public:
  /// Whether the observer is heard to know the subject for the first time since forget().
  bool meets(std::uint32_t observer, std::uint32_t subject) {
    return times_.try_emplace({observer, subject}).second;
  }
  void change(std::uint32_t observer, std::uint32_t subject, double now);
  /// The observer has started anew.
  void forget(std::uint32_t observer);
  /// The most changes of one subject in one table within kVerdictWindow.
  [[nodiscard]] std::uint64_t most() const noexcept { return most_; }

 private:
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::vector<double>> times_;
  std::uint64_t most_ = 0;
};

/// How soon peers are linked as a scenario expects. Of what it does not expect nothing is measured.
class PairTimes {
 public:
  /// How two peers are linked; nothing: they are not.
  using PathOf = std::function<std::optional<LinkPath>(std::uint32_t, std::uint32_t)>;

  /// `scenario` outlives this.
  explicit PairTimes(const Scenario& scenario);

  /// `since`: seconds from when it counts. `running`: the peers that run and have a replica.
  void look(double since, const std::vector<std::uint32_t>& running, const PathOf& path_of);
  /// Until any two that run were linked.
  [[nodiscard]] std::optional<double> linked_within() const noexcept { return linked_; }
  /// Until all links went as Scenario::paths has it.
  [[nodiscard]] std::optional<double> paths_within() const noexcept { return paths_; }

 private:
  const Scenario& scenario_;
  const bool expects_linked_, expects_paths_;
  std::optional<double> linked_, paths_;
};

}  // namespace starling::sim
