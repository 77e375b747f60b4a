// How often a peer exchanges, and how much, under the limits that its user set: the upload of its
// line, and the part of its computing time. Without limits: as the run file says.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/strong.hpp"
#include "base/time.hpp"
#include "exchange/config.hpp"

namespace starling::exchange {

/// An upload limit changes densities by this factor at most, down or up; where even so little is
/// too much, exchanges become rarer.
inline constexpr double kDensityFactorMax = 8.0;
/// Drift changes densities by this factor at most, down or up.
inline constexpr double kDriftFactorMax = 4.0;
/// Longest time that one delta keeps its link from the next one.
inline constexpr base::Duration kHoldMax = std::chrono::seconds(60);
/// Most steps between two exchanges of a link that a limit on computing time leads to.
inline constexpr std::uint32_t kEveryMax = 1024;

/// A mean that forgets: each new value counts for kNew.
class FadingMean {
 public:
  static constexpr double kNew = 0.1;

  void add(double value) { mean_ = mean_ ? *mean_ + kNew * (value - *mean_) : value; }
  [[nodiscard]] const std::optional<double>& value() const noexcept { return mean_; }

 private:
  std::optional<double> mean_;
};

/// Deterministic, without a clock. `links` are the open ones, which share a limit equally.
class Pace {
 public:
  explicit Pace(const Config& config);

  // What happened.
  /// Own steps are known to have reached `step`.
  void stepped(base::StepNumber step, base::Time now);
  /// One step took so long to compute.
  void computed(base::Duration took);
  /// A delta of `bytes` was written with that density.
  void wrote(std::size_t bytes, double density, base::Duration took);
  void committed(base::Duration took);

  // What follows.
  /// Own steps between two deltas of a link.
  [[nodiscard]] std::uint32_t every(std::size_t links) const;
  /// What the next delta of a link with that drift carries in place of `wanted`: under a limit so
  /// much that exchanges at the usual cadence use the upload that there is; otherwise in proportion
  /// to the drift, where there is a critical one (consensus control, Kong et al., ICML 2021).
  [[nodiscard]] double density(double wanted, double drift, std::size_t links) const;
  /// Most that lateness multiplies a density by.
  [[nodiscard]] double lag_factor_max() const noexcept;
  /// How long a delta of `bytes` takes its link's share of the upload; 0 without a limit.
  [[nodiscard]] base::Duration hold(std::size_t bytes, std::size_t links) const;

 private:
  [[nodiscard]] double bytes_per_second(std::size_t links) const;

  Config config_;
  std::optional<base::StepNumber> step_{};
  base::Time stepped_at_{};
  FadingMean step_seconds_;       ///< between two steps, whatever happens between them
  FadingMean compute_seconds_;    ///< of a step
  FadingMean encode_seconds_;     ///< of a delta
  FadingMean commit_seconds_;     ///< of an exchange
  FadingMean bytes_per_density_;  ///< of a delta
};

}  // namespace starling::exchange
