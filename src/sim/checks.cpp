#include "sim/checks.hpp"

#include <algorithm>

#include "base/assert.hpp"
#include "sim/checks/replicas.hpp"
#include "sim/checks/soundness.hpp"
#include "sim/checks/survey.hpp"

namespace starling::sim {
namespace {

/// Of so many peers a second is looked at what takes long, each in turn.
constexpr std::size_t kTurnsEachSecond = 32;

}  // namespace

Checks::Checks(World& world)
    : world_(world),
      alarm_(world),
      subjects_(world.nodes().size()),
      calm_(world),
      incarnations_(subjects_, alarm_),
      counters_(subjects_, calm_, alarm_),
      advances_(world, alarm_),
      dials_(world, calm_, alarm_),
      reaches_(world, alarm_),
      exchanges_(world, subjects_, calm_, alarm_),
      membership_cost_(world, calm_.times().last_start),
      pairs_(world, calm_.times().last_start),
      steps_(world),
      tables_(world, subjects_, calm_, alarm_),
      stages_(world, calm_, steps_, alarm_),
      calm_minutes_(world, calm_, stages_, alarm_),
      recovery_(world, calm_, tables_, stages_, alarm_) {
  world.set_observer(this);
}

void Checks::started(Node& node) {
  subjects_.started(node);
  calm_.started();
  incarnations_.started(node);
  reaches_.started(node);
  steps_.started(node);
  tables_.started(node);
  stages_.started(node);
}

void Checks::ended(const Node& node) {
  counters_.note(node);
  steps_.ended(node);
  subjects_.ended(node);
}

void Checks::killed(Node& node) {
  ended(node);
  tables_.killed(node);
}

void Checks::finished(Node& node) {
  ended(node);
  tables_.finished(node);
  stages_.finished(node);
}

void Checks::fault(const PlannedEvent& event, bool begins) {
  calm_.fault(event, begins);
  steps_.fault(event, begins);
  tables_.fault(event, begins);
  stages_.fault(event, begins);
}

// Honest peers never find each other at fault; frames that were damaged do not get that far.
void Checks::noticed(const Node& node, const base::Notice& notice) {
  if (notice.accuses && !calm_.twins()) alarm_.raise("peer-{} says: {}", node.peer, notice.text);
}

void Checks::sent(const Node& from, const wire::Message& message) {
  incarnations_.sent(from, message);
}

void Checks::dialed(const Node& node, const peer::Dial& dial, bool answers) {
  // Of dials at one moment some are always in vain: reach bounds them.
  if (dial.kind == peer::DialKind::direct) dials_.dialed(node, dial.address, answers);
  reaches_.dialed(node, dial);
}

void Checks::relays(const Node& relay) { reaches_.relays(relay); }

void Checks::stepped(Node& node, std::uint32_t samples) { steps_.stepped(node, samples); }

void Checks::touched(Node& node) {
  if (!world_.breach().empty()) alarm_.raise("{}", world_.breach());
  if (!node.worker->ledger().breach().empty()) {
    alarm_.raise("peer-{} {}", node.peer, node.worker->ledger().breach());
  }
  tables_.look_at(node);
  stages_.touched(node);
  steps_.touched(node);
  check_bounds(node, alarm_);
  exchanges_.touched(node);
}

void Checks::second() {
  recovery_.measure();
  membership_cost_.measure();
  pairs_.measure();
  const auto& nodes = world_.nodes();
  for (const auto& node : nodes) {
    if (!world_.is_up(*node)) continue;
    counters_.note(*node);
    exchanges_.check_balance(*node);
    check_finite(world_, *node, alarm_);
    check_buffers(world_, *node, alarm_);
    tables_.look_at(*node);
    stages_.check(*node);
  }
  for (std::size_t i = 0; i < std::min(kTurnsEachSecond, nodes.size()); ++i) {
    const Node& node = *nodes[turn_++ % nodes.size()];
    if (!world_.is_up(node)) continue;
    counters_.check(node);
    dials_.check(node);
    check_timers(world_, node, alarm_);
    advances_.check(node);
    tables_.check_suspicions(node);
  }
  stages_.check_others();
  calm_minutes_.look();
  const auto& times = calm_.times();
  const double now = world_.seconds();
  if (!any_up(world_) && now > times.last_start && now > times.last) world_.stop();
}

void Checks::finish() {
  if (!world_.breach().empty()) alarm_.raise("{}", world_.breach());
  if (failure().empty()) recovery_.finish();
  tables_.finish();
  exchanges_.finish();
  steps_.finish();
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
      return stages_.failed();
    case step_gap_max_s:
      return steps_.longest_gap();
    case throughput_min:
      return steps_.throughput();
    case detection_p50_s:
      return percentile(tables_.verdicts().detections(), 0.5);
    case detection_p99_s:
      return percentile(tables_.verdicts().detections(), 0.99);
    case false_deaths_max:
      return static_cast<double>(tables_.verdicts().false_deaths());
    case faulty_held_max:
      return static_cast<double>(tables_.faulty_held());
    case verdicts_per_minute_max:
      return static_cast<double>(tables_.changes_most());
    case one_view_within_s:
      return recovery_.one_view_within();
    case views_full_within_s:
      return recovery_.views_full_within();
    case drift_back_within_s:
      return recovery_.drift_back_within();
    case loss_ratio_max: {
      const auto own = final_loss(world_);
      if (!own || !undisturbed_loss || *undisturbed_loss <= 0) return std::nullopt;
      return *own / *undisturbed_loss;
    }
    case spectral_gap_min:
      return recovery_.gap();
    case membership_bytes_per_s_max:
      return membership_cost_.most();
    case sent_bytes_max:
      return mean_sent(world_);
    case pairs_linked_within_s:
      return pairs_.linked_within();
    case paths_within_s:
      return pairs_.paths_within();
  }
  ASSERT(false, "every measurement has a value");
  return std::nullopt;
}

}  // namespace starling::sim
