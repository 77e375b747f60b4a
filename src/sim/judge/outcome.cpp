#include "sim/judge/outcome.hpp"

#include <algorithm>

#include "sim/judge/statistics.hpp"

namespace starling::sim {
namespace {

Outcome outcome_of(const Expectation& expected, const Measured& measured) {
  const ExpectationKey& key = key_of(expected.measure);
  Outcome outcome{
      .name = std::string(key.name), .value = measured[expected.measure], .limit = expected.limit};
  outcome.passed = outcome.value && (key.at_least() ? *outcome.value >= expected.limit
                                                    : *outcome.value <= expected.limit);
  return outcome;
}

}  // namespace

void measure_results(const std::vector<Result>& results, Measured& measured) {
  std::vector<double> accuracies;
  std::vector<double> losses;
  std::vector<double> sent;
  for (const Result& result : results) {
    if (result.accuracy) accuracies.push_back(*result.accuracy);
    if (result.loss) losses.push_back(*result.loss);
    sent.push_back(result.sent_bytes);
  }
  measured[Measure::accuracy_min] = mean(accuracies);
  if (const auto worst = std::ranges::min_element(accuracies); worst != accuracies.end()) {
    measured[Measure::worst_accuracy_min] = *worst;
  }
  measured[Measure::loss_max] = mean(losses);
  measured[Measure::sent_bytes_max] = mean(sent);
  measured[Measure::finished_min] = static_cast<double>(results.size());
}

std::vector<Outcome> outcomes_of(const Scenario& scenario, const Measured& measured) {
  std::vector<Outcome> outcomes;
  for (const Expectation& expected : scenario.expect) {
    outcomes.push_back(outcome_of(expected, measured));
  }
  const bool failed = measured[Measure::failed_max].value_or(0) > 0;
  if (failed && !expects(scenario, Measure::failed_max)) {
    outcomes.push_back(outcome_of({.measure = Measure::failed_max, .limit = 0}, measured));
  }
  return outcomes;
}

bool all_passed(const std::vector<Outcome>& outcomes) {
  return std::ranges::all_of(outcomes, [](const Outcome& outcome) { return outcome.passed; });
}

std::optional<double> loss_ratio(std::optional<double> loss, std::optional<double> undisturbed) {
  if (!loss || !undisturbed || *undisturbed <= 0) return std::nullopt;
  return *loss / *undisturbed;
}

}  // namespace starling::sim
