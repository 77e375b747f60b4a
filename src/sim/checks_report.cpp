// What was measured, against what was expected.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/assert.hpp"
#include "sim/checks.hpp"

namespace starling::sim {
namespace {

/// The larger of two; of what is not a number nothing is larger.
double worse(double a, double b) { return std::isnan(a) || a > b ? a : b; }

/// |v_i - mean| / |mean| of each; nothing of fewer than two.
std::vector<double> distances(const std::vector<std::vector<float>>& all) {
  if (all.size() < 2) return {};
  std::vector<double> mean(all.front().size());
  double norm = 0;
  for (std::size_t e = 0; e < mean.size(); ++e) {
    for (const auto& x : all) mean[e] += static_cast<double>(x[e]);
    mean[e] /= static_cast<double>(all.size());
    norm += mean[e] * mean[e];
  }
  std::vector<double> distances;
  for (const auto& x : all) {
    double off = 0;
    for (std::size_t e = 0; e < mean.size(); ++e) {
      off += (static_cast<double>(x[e]) - mean[e]) * (static_cast<double>(x[e]) - mean[e]);
    }
    distances.push_back(off == 0 ? 0 : std::sqrt(off / norm));
  }
  return distances;
}

/// The largest of them.
std::optional<double> spread(const std::vector<std::vector<float>>& all) {
  std::optional<double> most;
  for (const double distance : distances(all)) most = worse(most.value_or(0), distance);
  return most;
}

std::optional<double> since(const std::optional<double>& at, double begin) {
  if (!at) return std::nullopt;
  return std::max(0.0, *at - begin);
}

}  // namespace

std::vector<const Node*> Checks::trained() const {
  std::vector<const Node*> all;
  for (const auto& node : world_.nodes()) {
    if (!node->worker || node->number != node->peer) continue;
    // Who left, or failed, has not seen the end.
    if (node->finished && node->finished->reason != peer::EndReason::done) continue;
    all.push_back(node.get());
  }
  return all;
}

std::optional<double> Checks::quality(bool accuracy) const {
  double sum = 0;
  std::size_t count = 0;
  for (const Node* node : trained()) {
    const auto& evaluated = node->worker->evaluated();
    if (!node->finished || !evaluated) continue;
    sum += accuracy ? evaluated->accuracy : evaluated->loss;
    ++count;
  }
  if (count == 0) return std::nullopt;
  return sum / static_cast<double>(count);
}

std::optional<double> Checks::distance(bool finished) const {
  std::vector<std::vector<float>> all;
  for (const Node* node : trained()) {
    if (finished && !node->finished) continue;
    all.emplace_back(node->worker->replica().size());
    node->worker->replica().read(all.back());
  }
  return spread(all);
}

// Of those that run.
std::optional<double> Checks::mean_distance() const {
  std::vector<std::vector<float>> replicas;
  for (const auto& node : world_.nodes()) {
    if (!world_.is_up(*node) || node->number != node->peer) continue;
    replicas.emplace_back(node->worker->replica().size());
    node->worker->replica().read(replicas.back());
  }
  const std::vector<double> all = distances(replicas);
  if (all.empty()) return std::nullopt;
  return std::accumulate(all.begin(), all.end(), 0.0) / static_cast<double>(all.size());
}

std::optional<double> Checks::ledger_coverage() const noexcept {
  if (links_met_ == 0) return std::nullopt;
  return static_cast<double>(links_balanced_) / static_cast<double>(links_met_);
}

std::optional<double> Checks::buffer_distance() const {
  if (world_.task().buffers.initial.empty()) return std::nullopt;
  std::vector<std::vector<float>> all;
  for (const Node* node : trained()) {
    const auto values = node->worker->replica().buffers().values();
    all.emplace_back(values.begin(), values.end());
  }
  return spread(all);
}

std::optional<double> Checks::optimum_distance() const {
  const std::vector<float>& optimum = world_.task().optimum;
  if (optimum.empty()) return std::nullopt;
  std::optional<double> most;
  for (const Node* node : trained()) {
    std::vector<float> x(optimum.size());
    node->worker->replica().read(x);
    double off = 0;
    double norm = 0;
    for (std::size_t e = 0; e < x.size(); ++e) {
      const double difference = static_cast<double>(x[e]) - static_cast<double>(optimum[e]);
      off += difference * difference;
      norm += static_cast<double>(optimum[e]) * static_cast<double>(optimum[e]);
    }
    most = worse(most.value_or(0), std::sqrt(off / norm));
  }
  return most;
}

double Checks::finished_peers() const {
  return static_cast<double>(std::ranges::count_if(world_.nodes(), [](const auto& node) {
    return node->number == node->peer && node->finished &&
           node->finished->reason == peer::EndReason::done;
  }));
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
      return quality(true);
    case loss_max:
      return final_loss();
    case distance_max:
      return distance(true);
    case optimum_distance_max:
      return optimum_distance();
    case finished_min:
      return finished_peers();
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
      const auto own = final_loss();
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
