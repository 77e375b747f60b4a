// What was measured, against what was expected.
#include <algorithm>

#include "base/assert.hpp"
#include "sim/checks.hpp"
#include "sim/checks/replicas.hpp"

namespace starling::sim {
namespace {

std::optional<double> since(const std::optional<double>& at, double begin) {
  if (!at) return std::nullopt;
  return std::max(0.0, *at - begin);
}

}  // namespace

std::optional<double> Checks::ledger_coverage() const noexcept {
  if (links_met_ == 0) return std::nullopt;
  return static_cast<double>(links_balanced_) / static_cast<double>(links_met_);
}

std::size_t Checks::faulty_held() const {
  std::size_t most = 0;
  for (const auto& node : world_.nodes()) {
    if (!world_.is_up(*node) || disturbed(node->peer)) continue;
    const View& view = views_[node->number];
    std::size_t held = 0;
    for (std::uint32_t i = 0; i < view.alive.size(); ++i) {
      const Subject& subject = subjects_[i];
      held += view.alive[i] && (!subject.running || disturbed(subject.node)) ? 1 : 0;
    }
    most = std::max(most, held);
  }
  return most;
}

std::optional<double> Checks::value_of(Measure measure,
                                       std::optional<double> undisturbed_loss) const {
  switch (measure) {
    using enum Measure;
    case accuracy_min:
      return final_accuracy(world_);
    case loss_max:
      return final_loss(world_);
    case distance_max:
      return final_distance(world_);
    case optimum_distance_max:
      return optimum_distance(world_);
    case finished_min:
      return static_cast<double>(count_finished(world_));
    case failed_max:
      return failed_;
    case step_gap_max_s:
      return steps_made_ > 0 ? std::optional(step_gap_) : std::nullopt;
    case throughput_min:
      if (steps_made_ == 0) return std::nullopt;
      return static_cast<double>(steps_made_) / steps_possible_;
    case detection_p50_s:
      return percentile(verdicts_.detections(), 0.5);
    case detection_p99_s:
      return percentile(verdicts_.detections(), 0.99);
    case false_deaths_max:
      return static_cast<double>(verdicts_.false_deaths());
    case faulty_held_max:
      return static_cast<double>(faulty_held());
    case verdicts_per_minute_max:
      return static_cast<double>(changes_most_);
    case one_view_within_s:
      return since(one_view_at_, last_fault_);
    case views_full_within_s:
      return since(views_full_at_, last_start_);
    case drift_back_within_s:
      return since(drift_back_at_, last_fault_);
    case loss_ratio_max: {
      const auto own = final_loss(world_);
      if (!own || !undisturbed_loss || *undisturbed_loss <= 0) return std::nullopt;
      return *own / *undisturbed_loss;
    }
    case spectral_gap_min:
      return gap_;
    case membership_bytes_per_s_max:
      return membership_rate();
  }
  ASSERT(false, "every measurement has a value");
  return std::nullopt;
}

std::vector<Outcome> Checks::outcomes(std::optional<double> undisturbed_loss) const {
  std::vector<Outcome> outcomes;
  for (const auto& [measure, limit] : world_.plan().scenario.expect) {
    const ExpectationKey& key = key_of(measure);
    Outcome outcome{.name = std::string(key.name),
                    .value = value_of(measure, undisturbed_loss),
                    .limit = limit};
    outcome.passed =
        outcome.value && (key.at_least() ? *outcome.value >= limit : *outcome.value <= limit);
    outcomes.push_back(std::move(outcome));
  }
  return outcomes;
}

}  // namespace starling::sim
