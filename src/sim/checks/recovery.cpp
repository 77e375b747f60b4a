// After the faults the swarm becomes whole again: how soon it does, that it does, and that its
// peers then agree on replicas and on who trains on which data.
#include <algorithm>
#include <map>
#include <string_view>

#include "sim/checks/check.hpp"
#include "sim/checks/replicas.hpp"
#include "sim/checks/stages.hpp"
#include "sim/checks/survey.hpp"
#include "sim/checks/tables.hpp"
#include "sim/judge/meters.hpp"

namespace starling::sim {
namespace {

/// The swarm must be whole again when the faults have been over for this long.
constexpr double kRecoverySeconds = 150;
/// Rare branches drop links and accuse living peers all the time: then the overlay is whole, and
/// tables agree, only now and then.
constexpr double kMomentSeconds = 10;

std::optional<double> passed(double begin, const std::optional<double>& at) {
  if (!at) return std::nullopt;
  return std::max(0.0, *at - begin);
}

/// For the replicas at the end of a run.
constexpr double kEndDistanceMax = 0.05;
/// For equal replicas, whose mean is rounded.
constexpr double kRingDistanceMax = 1e-6;
/// For their buffers if rare branches drop links all the time: a peer that has lost a link does not
/// wait for that neighbour, and buffers have fewer exchanges than replicas to come together.
constexpr double kEndBuffersRareMax = 0.25;
/// For the replicas of a swarm that has recovered: relative to their mean, and to the optimum.
constexpr double kDistanceMax = 0.2;
/// For their buffers, which each peer draws differently at every step.
constexpr double kBufferDistanceMax = 0.25;
/// The same if rare branches drop links all the time: buffers then have fewer exchanges to come
/// together.
constexpr double kBufferDistanceRareMax = 0.35;
/// Jobs of a peer and frames on its links that may wait when nothing disturbs it: of jobs so many,
/// or two for each link where a hub has many.
constexpr std::size_t kJobsWaitingMax = 16;
constexpr std::size_t kFramesWaitingMax = 64;

/// Checks the replicas and buffers at the end of a run, if nothing disturbed the end.
void check_end_of_run(const World& world, bool any_failed, Alarm& alarm) {
  const exchange::Mode mode = world.task().config.exchange.mode;
  const auto apart = largest_distance(world);
  if (exchange::uses_ring(mode) && !any_failed && apart && !(*apart <= kRingDistanceMax)) {
    alarm.raise("the ring ended with replicas {} from their mean", *apart);
  }
  if (!exchange::uses_links(mode)) return;
  if (apart && !(*apart <= kEndDistanceMax)) {
    alarm.raise("the run ended with replicas {} from their mean", *apart);
  }
  const auto buffers = buffer_distance(world);
  const bool rare = world.plan().scenario.sim.buggify;
  if (buffers && !(*buffers <= (rare ? kEndBuffersRareMax : kEndDistanceMax))) {
    alarm.raise("the run ended with buffers {} from their mean", *buffers);
  }
}

/// Checks them after the last fault.
void check_replicas(const World& world, Alarm& alarm) {
  const Scenario& scenario = world.plan().scenario;
  if (scenario.sim.problem != Problem::quadratic) return;
  if (!exchange::uses_links(world.task().config.exchange.mode)) return;
  const auto near = [&](std::string_view what, const std::optional<double>& value) {
    if (value && !(*value <= kDistanceMax)) alarm.raise("replicas are {} from {}", *value, what);
  };
  near("their mean", largest_distance(world));
  near("the optimum", optimum_distance(world));
  const auto buffers = buffer_distance(world);
  const double limit = scenario.sim.buggify ? kBufferDistanceRareMax : kBufferDistanceMax;
  if (buffers && !(*buffers <= limit)) alarm.raise("buffers are {} from their mean", *buffers);
}

/// Each shard is owned by one peer.
void check_shards(const World& world, Alarm& alarm) {
  std::map<std::uint32_t, std::size_t> owners;
  for (const auto& node : world.nodes()) {
    if (!trains(*node)) continue;
    for (const std::uint32_t shard : node->worker->shards()) ++owners[shard];
  }
  const std::size_t shards = world.task().shards->count();
  if (owners.size() != shards) alarm.raise("{} of {} shards are owned", owners.size(), shards);
  for (const auto& [shard, count] : owners) {
    if (count > 1) alarm.raise("shard {} has {} owners", shard, count);
  }
}

/// Jobs, frames and events do not pile up, once nothing disturbs the peer any more.
void check_queues(const World& world, const Node& node, Alarm& alarm) {
  if (!node.held.empty() && node.state == NodeState::running) {
    alarm.raise("peer-{} has not taken {} events", node.peer, node.held.size());
  }
  const std::size_t links = node.core->exchange().open_links();
  if (node.worker->waiting() > std::max(kJobsWaitingMax, 2 * links)) {
    alarm.raise("{} jobs of peer-{} wait", node.worker->waiting(), node.peer);
  }
  const std::size_t unsent = world.unsent(node);
  if (unsent > kFramesWaitingMax) alarm.raise("{} frames of peer-{} wait", unsent, node.peer);
}

class Recovery final : public Check {
 public:
  explicit Recovery(const Scene& scene)
      : world_(scene.world),
        calm_(scene.calm),
        tables_(scene.tables),
        stages_(scene.stages),
        alarm_(scene.alarm),
        findings_(scene.findings),
        drift_expected_(expects(scene.world.plan().scenario, Measure::drift_back_within_s)) {}

  void second() override;
  void finish() override;

 private:
  void measure_drift();
  /// Whether all is whole, if the faults have been over for long enough.
  void check_end();

  const World& world_;
  const Calm& calm_;
  const Tables& tables_;
  Stages& stages_;
  Alarm& alarm_;
  Findings& findings_;
  const bool drift_expected_;
  // In seconds; nothing: it has not happened.
  std::optional<double> one_view_at_;    ///< after the last fault, all tables were right
  std::optional<double> views_full_at_;  ///< after the last start, all had their neighbours
  std::optional<double> drift_back_at_;  ///< replicas were as near as before the first fault
  std::optional<double> drift_before_;   ///< how far apart replicas were before the first fault
  std::optional<double> gap_;            ///< of the overlay kJoinSeconds after the last start
  /// With rare branches: last, near the end of the run.
  double connected_at_ = -1, agreed_at_ = -1;
};

void Recovery::second() {
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

// Measures the replicas themselves. The drift that peers know is that of their links, and of two
// separated halves neither knows how far away the other is. If replicas come nearer all the time,
// two halves may be as near as all were before; they count as back when they exchange.
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
  if (after && drift_before_ && *apart <= kDriftBack * *drift_before_ && connected(world_) &&
      all_linked(world_)) {
    drift_back_at_ = now;
  }
}

void Recovery::finish() {
  Measured& measured = findings_.measured;
  const auto& times = calm_.times();
  measured[Measure::one_view_within_s] = passed(times.last, one_view_at_);
  measured[Measure::views_full_within_s] = passed(times.last_start, views_full_at_);
  measured[Measure::drift_back_within_s] = passed(times.last, drift_back_at_);
  measured[Measure::spectral_gap_min] = gap_;
  if (alarm_.failure().empty()) check_end();
}

void Recovery::check_end() {
  if (lacks_hub(world_)) return;
  // A run that ends is over soon after its faults, so its end is judged at any time.
  // How much of an attack honest peers bear is for the scenario to expect.
  const bool all_honest = !has_hostiles(world_.plan());
  if (all_honest && stages_.done_undisturbed()) {
    check_end_of_run(world_, stages_.failed() > 0, alarm_);
  }
  const double past = world_.seconds() - calm_.times().last;
  if (past < kRecoverySeconds || !any_up(world_)) return;
  for (const auto& node : world_.nodes()) {
    if (node->is_up()) stages_.check_goes_on(*node);
  }
  if (stages_.ring_is_over() || stages_.ending()) return;
  if (!tables_.one_view() && world_.seconds() > agreed_at_ + kMomentSeconds) {
    alarm_.raise("{:.0f} s after the last fault tables differ", past);
  }
  if (!connected(world_) && world_.seconds() > connected_at_ + kMomentSeconds) {
    alarm_.raise("{:.0f} s after the last fault the overlay is split", past);
  }
  for (const auto& node : world_.nodes()) {
    if (node->is_up() && !node->hostile) check_queues(world_, *node, alarm_);
  }
  check_shards(world_, alarm_);
  if (all_honest) check_replicas(world_, alarm_);
}

}  // namespace

std::unique_ptr<Check> make_recovery(const Scene& scene) {
  return std::make_unique<Recovery>(scene);
}

}  // namespace starling::sim
