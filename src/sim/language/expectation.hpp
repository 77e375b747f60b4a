// The expectations of a scenario: each measurement that exists, and its key in a file.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace starling::sim {

/// Named as in files. A measurement whose name ends in _min has a lower limit, any other an upper
/// one.
enum class Measure : std::uint8_t {
  accuracy_min,          ///< mean final accuracy of the peers that finished
  worst_accuracy_min,    ///< lowest final accuracy of such a peer
  loss_max,              ///< mean final loss of the peers that finished
  distance_max,          ///< max |x_i - mean| / |mean| over the final replicas
  optimum_distance_max,  ///< quadratic: largest relative distance of a replica from the optimum
  finished_min,          ///< peers that ended their run
  failed_max,            ///< peers that ended with an error; none may if it is not given
  /// Longest time between two steps of a peer that no fault stopped, slowed down or restarted.
  step_gap_max_s,
  throughput_min,   ///< batches of such peers, together, as a fraction of what their speeds allow
  detection_p50_s,  ///< median time from a death until a running peer holds it dead
  detection_p99_s,  ///< the same, 99th percentile
  /// Peers that were held dead while they ran and could be reached; each once per fault.
  false_deaths_max,
  /// Peers, dead or in a fault, that a healthy one holds alive at the end.
  faulty_held_max,
  /// Most changes between alive and dead of one peer in one table within a minute.
  verdicts_per_minute_max,
  one_view_within_s,    ///< after the last fault: until all member tables agree on who runs
  views_full_within_s,  ///< after the last start: until every peer has its neighbours
  /// After the last fault: until drift is at most 1.1 times what it was before the first.
  drift_back_within_s,
  loss_ratio_max,    ///< final loss over that of the same run undisturbed, at equal samples
  spectral_gap_min,  ///< of averaging over the links that exist 30 s after the last start
  /// Highest rate of a peer's membership traffic, mean since 30 s after the last start.
  membership_bytes_per_s_max,
  sent_bytes_max,         ///< mean bytes that finished peers sent since their last start
  pairs_linked_within_s,  ///< after the last start: until any two running peers have a link
  paths_within_s,         ///< after the last start: until all links go as in Scenario::paths
  /// Samples that all peers have trained, next to those of the run: the relative difference.
  samples_off_max,
  ends_within_s,  ///< after the first peer was done: until the last was that is
};

/// An expectation: the measurement must be at most, or at least, the limit.
struct Expectation {
  Measure measure{};
  double limit = 0;
};

/// How a file expects a measurement.
struct ExpectationKey {
  Measure measure{};
  std::string_view name;
  double min = 0, max = 0;      ///< of the limit
  bool simulated_only = false;  ///< cannot be measured with real peers

  [[nodiscard]] constexpr bool at_least() const noexcept { return name.ends_with("_min"); }
};

/// One for each measurement, in their order.
inline constexpr auto kExpectationKeys = [] {
  using enum Measure;
  constexpr double kMost = 1e6;
  constexpr double kCount = 1e9;
  return std::to_array<ExpectationKey>({
      {accuracy_min, "accuracy_min", 0, 1},
      {worst_accuracy_min, "worst_accuracy_min", 0, 1},
      {loss_max, "loss_max", 0, kMost},
      {distance_max, "distance_max", 0, kMost},
      {optimum_distance_max, "optimum_distance_max", 0, kMost, true},
      {finished_min, "finished_min", 0, kCount},
      {failed_max, "failed_max", 0, kCount},
      {step_gap_max_s, "step_gap_max_s", 0, kMost},
      {throughput_min, "throughput_min", 0, 1},
      {detection_p50_s, "detection_p50_s", 0, kMost},
      {detection_p99_s, "detection_p99_s", 0, kMost},
      {false_deaths_max, "false_deaths_max", 0, kCount},
      {faulty_held_max, "faulty_held_max", 0, kCount, true},
      {verdicts_per_minute_max, "verdicts_per_minute_max", 0, kCount},
      {one_view_within_s, "one_view_within_s", 0, kMost},
      {views_full_within_s, "views_full_within_s", 0, kMost},
      {drift_back_within_s, "drift_back_within_s", 0, kMost},
      {loss_ratio_max, "loss_ratio_max", 0, kMost},
      {spectral_gap_min, "spectral_gap_min", 0, 1, true},
      {membership_bytes_per_s_max, "membership_bytes_per_s_max", 0, 1e12},
      {sent_bytes_max, "sent_bytes_max", 0, 1e15},
      {pairs_linked_within_s, "pairs_linked_within_s", 0, kMost},
      {paths_within_s, "paths_within_s", 0, kMost},
      {samples_off_max, "samples_off_max", 0, kMost, true},
      {ends_within_s, "ends_within_s", 0, kMost},
  });
}();

[[nodiscard]] constexpr const ExpectationKey& key_of(Measure measure) noexcept {
  return kExpectationKeys[static_cast<std::size_t>(measure)];
}

static_assert([] {
  for (std::size_t i = 0; i < kExpectationKeys.size(); ++i) {
    if (kExpectationKeys[i].measure != static_cast<Measure>(i)) return false;
  }
  return true;
}());

}  // namespace starling::sim
