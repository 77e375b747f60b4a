// The measurements of a run, simulated or real, compared with the expectations of its scenario.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "sim/language/scenario.hpp"

namespace starling::sim {

/// A value for each measurement; nothing: it was not measured.
class Measured {
 public:
  [[nodiscard]] std::optional<double>& operator[](Measure measure) {
    return values_[static_cast<std::size_t>(measure)];
  }
  [[nodiscard]] const std::optional<double>& operator[](Measure measure) const {
    return values_[static_cast<std::size_t>(measure)];
  }

 private:
  std::array<std::optional<double>, kExpectationKeys.size()> values_;
};

/// Of a peer that ended its run.
struct Result {
  std::optional<double> accuracy, loss;  ///< final; nothing: it was not evaluated
  double sent_bytes = 0;                 ///< of all frames, since its last start
};

/// Measures the results of such peers: their number, their means, and the worst.
void measure_results(const std::vector<Result>& results, Measured& measured);

struct Outcome {
  std::string name;
  bool passed = false;
  std::optional<double> value;  ///< nothing: it was not measured, which meets no limit
  double limit = 0;
};

/// One outcome for each expectation of the scenario. If it does not say how many peers may fail and
/// some did, one more outcome says that none may.
[[nodiscard]] std::vector<Outcome> outcomes_of(const Scenario& scenario, const Measured& measured);

[[nodiscard]] bool all_passed(const std::vector<Outcome>& outcomes);

/// A final loss divided by that of the same run undisturbed; nothing if one of them is not known.
[[nodiscard]] std::optional<double> loss_ratio(std::optional<double> loss,
                                               std::optional<double> undisturbed);

}  // namespace starling::sim
