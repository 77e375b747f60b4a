#include "sim/checks/recovery.hpp"

#include <algorithm>

#include "sim/checks/agreement.hpp"
#include "sim/checks/replicas.hpp"
#include "sim/checks/soundness.hpp"
#include "sim/checks/survey.hpp"

namespace starling::sim {
namespace {

/// Faults over for so long, the swarm must be whole again.
constexpr double kRecoverySeconds = 150;
/// Rare branches drop links and accuse the living all the time: then the overlay is whole, and
/// tables agree, now and then.
constexpr double kMomentSeconds = 10;

std::optional<double> passed(double begin, const std::optional<double>& at) {
  if (!at) return std::nullopt;
  return std::max(0.0, *at - begin);
}

}  // namespace

Recovery::Recovery(const World& world, const Calm& calm, const Tables& tables, Stages& stages,
                   Alarm& alarm)
    : world_(world),
      calm_(calm),
      tables_(tables),
      stages_(stages),
      alarm_(alarm),
      drift_expected_(expects(world.plan().scenario, Measure::drift_back_within_s)) {}

void Recovery::measure() {
  const double now = world_.seconds();
  const auto& [first_fault, last_fault, last_start] = calm_.times();
  measure_drift();
  if (now >= last_fault && !one_view_at_ && tables_.one_view()) one_view_at_ = now;
  if (now >= last_start && !views_full_at_ && views_full(world_)) views_full_at_ = now;
  if (now >= last_start + kJoinSeconds && !gap_) gap_ = overlay_gap(world_);
  const Scenario& scenario = world_.plan().scenario;
  if (scenario.sim.buggify && now > scenario.duration - kMomentSeconds) {
    if (connected(world_)) connected_at_ = now;
    if (tables_.one_view()) agreed_at_ = now;
  }
}

// Of the replicas themselves: what peers know of their drift is of their links, and of two halves
// neither knows how far away the other is. Where replicas come nearer all the time, two halves may
// be as near as all were before; they are back when they exchange.
void Recovery::measure_drift() {
  if (!drift_expected_ || !exchange::uses_links(world_.task().config.exchange.mode)) return;
  const double now = world_.seconds();
  const auto& times = calm_.times();
  const bool before = times.first < 0 || now < times.first;
  const bool after = now >= times.last && !drift_back_at_;
  if (!before && !after) return;
  const auto apart = mean_distance(world_);
  if (!apart) return;
  if (before) {
    const double known = drift_before_.value_or(*apart);
    drift_before_ = known + 0.1 * (*apart - known);
  }
  if (after && drift_before_ && *apart <= 1.1 * *drift_before_ && connected(world_) &&
      all_linked(world_)) {
    drift_back_at_ = now;
  }
}

void Recovery::finish() {
  if (lacks_hub(world_)) return;
  // A run that ends is over soon after its faults: its end is judged whenever it comes.
  if (stages_.done_undisturbed()) check_end_of_run(world_, stages_.failed() > 0, alarm_);
  const double past = world_.seconds() - calm_.times().last;
  if (past < kRecoverySeconds || !any_up(world_)) return;
  for (const auto& node : world_.nodes()) {
    if (world_.is_up(*node)) stages_.check_goes_on(*node);
  }
  if (stages_.ring_is_over() || stages_.ending()) return;
  if (!tables_.one_view() && world_.seconds() > agreed_at_ + kMomentSeconds) {
    alarm_.raise("{:.0f} s after the last fault tables differ", past);
  }
  if (!connected(world_) && world_.seconds() > connected_at_ + kMomentSeconds) {
    alarm_.raise("{:.0f} s after the last fault the overlay is split", past);
  }
  for (const auto& node : world_.nodes()) {
    if (world_.is_up(*node)) check_queues(world_, *node, alarm_);
  }
  check_shards(world_, alarm_);
  check_replicas(world_, alarm_);
}

std::optional<double> Recovery::one_view_within() const {
  return passed(calm_.times().last, one_view_at_);
}

std::optional<double> Recovery::views_full_within() const {
  return passed(calm_.times().last_start, views_full_at_);
}

std::optional<double> Recovery::drift_back_within() const {
  return passed(calm_.times().last, drift_back_at_);
}

}  // namespace starling::sim
