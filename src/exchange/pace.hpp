// How often a peer exchanges, and how much: as the run file says, as far as each link's line
// carries it, and within the limits that its user set on the upload and on computing time.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/strong.hpp"
#include "base/time.hpp"
#include "exchange/config.hpp"

namespace starling::exchange {

/// An upload limit changes densities by this factor at most, down or up, a link's line down; where
/// even so little is too much, exchanges become rarer.
inline constexpr double kDensityFactorMax = 8.0;
/// Longest time that an upload limit keeps a link from its next delta.
inline constexpr base::Duration kUploadTimeMax = std::chrono::hours(1);
/// Without a limit on computing time, this part of it at most goes into deltas for neighbours that
/// are faster than this peer.
inline constexpr double kAnswerShare = 0.2;
/// Computing time that may be saved up for such deltas.
inline constexpr base::Duration kAnswerCreditMax = std::chrono::seconds(1);
/// Most steps between two exchanges of a link that a limit on computing time leads to.
inline constexpr std::uint32_t kEveryMax = 1024;

/// Exponentially weighted moving average: each new value counts for kNew.
class MovingAverage {
 public:
  static constexpr double kNew = 0.1;

  void add(double value) { mean_ = mean_ ? *mean_ + kNew * (value - *mean_) : value; }
  [[nodiscard]] const std::optional<double>& value() const noexcept { return mean_; }

 private:
  std::optional<double> mean_;
};

/// How fast a link's deltas come, as their receiver sees it.
class Bandwidth {
 public:
  /// The fastest of so many deltas in a row counts: what is slower has met something else, such as
  /// a receiver that was busy.
  static constexpr std::size_t kWindow = 8;

  /// One delta of `bytes`; took 0: too short to tell. A window of such ones makes it unknown again,
  /// so that what is asked of a line that got better rises, and is measured.
  void add(std::size_t bytes, base::Duration took);
  /// Bytes/s; 0: not known.
  [[nodiscard]] double value() const noexcept { return *std::ranges::max_element(recent_); }

 private:
  std::array<double, kWindow> recent_{};
  std::size_t next_ = 0;
};

/// Figures of a link's last delta.
struct Line {
  double bandwidth = 0;   ///< bytes/s; 0: not known, or so much that deltas cannot tell
  double lag = 1;         ///< steps since the delta before it, in units of every()
  std::size_t bytes = 0;  ///< size of the delta and its buffers
};

/// The limits of the next delta: `density` times its lag, and at most `lag_factor_max` times.
struct DeltaBudget {
  double density = 0;
  double lag_factor_max = 1;
};

/// Deterministic, without a clock. `links` are the open ones, which share a limit equally.
class Pace {
 public:
  explicit Pace(const Config& config);

  // Events.
  /// Own steps are known to have reached `step`.
  void on_steps(base::StepNumber step, base::Time now);
  /// One step took so long to compute.
  void on_compute(base::Duration took);
  /// A delta of `bytes` was written with that density.
  void on_encoded(std::size_t bytes, double density, base::Duration took);
  void on_committed(base::Duration took);
  /// A neighbour waits for a delta for which no own step is due. False: there is no computing time
  /// for it now; else it is taken.
  [[nodiscard]] bool take_answer(base::Time now);

  // Decisions.
  /// Own steps between two deltas of a link.
  [[nodiscard]] std::uint32_t every(std::size_t links) const;
  /// The density of a link's next delta, in place of `wanted`. Under an upload limit, exchanges at
  /// the usual cadence use what it allows. A delta is never larger than its line carries between
  /// two deltas, or while they wait for something else, such as a far end's answer.
  [[nodiscard]] DeltaBudget budget(double wanted, const Line& line, std::size_t links) const;
  /// Time that `bytes` take at their link's share of the upload limit; 0 without a limit.
  [[nodiscard]] base::Duration upload_time(std::size_t bytes, std::size_t links) const;

 private:
  [[nodiscard]] double bytes_per_second(std::size_t links) const;
  /// Computing time of a delta and its commit, as far as it is known.
  [[nodiscard]] double exchange_seconds() const;
  /// Whether interval() and density_for() can be computed.
  [[nodiscard]] bool is_measured() const noexcept;
  /// Seconds between two deltas of a link.
  [[nodiscard]] double interval(std::size_t links) const;
  /// Density of a delta that a line carries in `seconds`.
  [[nodiscard]] double density_for(double bytes_per_second, double seconds) const;
  [[nodiscard]] double density(double wanted, std::size_t links) const;

  Config config_;
  std::optional<base::StepNumber> step_{};
  base::Time stepped_at_{};
  MovingAverage step_seconds_;     ///< from one step to the next, whatever lies between them
  MovingAverage compute_seconds_;  ///< computing time of a step
  MovingAverage encode_seconds_;   ///< time to write a delta
  MovingAverage commit_seconds_;   ///< time to commit an exchange
  base::Time answered_at_{};
  double answer_credit_ = 0;         ///< seconds that answers may take, as of answered_at_
  MovingAverage bytes_per_density_;  ///< size of a delta over its density
};

}  // namespace starling::exchange
