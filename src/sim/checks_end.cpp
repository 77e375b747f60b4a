// How a peer comes to its end, and that it does; what must hold when all faults are over.
#include <algorithm>

#include <fmt/format.h>

#include "sim/checks.hpp"
#include "sim/checks/agreement.hpp"
#include "sim/checks/soundness.hpp"
#include "sim/checks/survey.hpp"

namespace starling::sim {
namespace {

constexpr double kCalmSeconds = 30;
/// What the others may take for their last steps, beyond settling, when the first peer is done.
constexpr double kOthersSeconds = 60;
/// Until all tables know of an end.
constexpr double kFarewellSeconds = 30;
/// Of what a peer is at for so long, in seconds and in steps, nothing comes any more.
constexpr double kStillSeconds = 10;
constexpr double kStillSteps = 100;

}  // namespace

void Checks::note_end(const Node& node) {
  last_end_ = world_.seconds();
  if (node.finished->reason == peer::EndReason::done && first_done_ < 0) first_done_ = last_end_;
  if (node.finished->reason != peer::EndReason::failed) return;
  ++failed_;
  if (failures_are_expected()) return;
  alarm_.raise("peer-{} ended with an error: {}", node.peer, node.finished->error.text);
}

bool Checks::failures_are_expected() const {
  return expects(world_.plan().scenario, Measure::failed_max);
}

void Checks::look_at_stage(Node& node) {
  Stage& stage = stages_[node.number];
  if (node.core->phase() == stage.phase) return;
  if (stage.phase == peer::Phase::settling) check_settling(node, stage.since);
  stage = {node.core->phase(), world_.seconds()};
  if (stage.phase != peer::Phase::training) close_gap(node);
}

// Only training has no end of its own.
void Checks::check_stage(const Node& node) {
  const peer::Config& config = world_.task().config;
  const auto& [phase, since] = stages_[node.number];
  if (phase == peer::Phase::training || phase == peer::Phase::done) return;
  // All of a ring have to be there.
  if (waits_for_ring(world_, node)) return;
  if (node.state != NodeState::running || disturbed(node.peer)) return;
  double limit =
      kStillSeconds + kStillSteps * world_.plan().scenario.sim.step_ms / 1000 / node.speed;
  std::string_view what = "finishes";
  if (phase == peer::Phase::waiting) {
    limit += base::seconds(config.membership.wait_timeout);
    what = "waits for its links";
  } else if (phase == peer::Phase::settling) {
    limit += base::seconds(config.exchange.settle_timeout);
    what = "settles";
  }
  if (exchange::uses_ring(config.exchange.mode)) limit += base::seconds(peer::kRingGrace);
  const double passed = world_.seconds() - std::max(since, convalescent_until(node.peer));
  if (passed > limit) alarm_.raise("peer-{} {} for {:.0f} s", node.peer, what, passed);
}

// Where nothing disturbs, what one knows of the others' samples all know soon.
void Checks::check_end() {
  if (first_done_ < last_fault_ + kCalmSeconds) return;
  const double passed = world_.seconds() - first_done_;
  if (passed <= base::seconds(world_.task().config.exchange.settle_timeout) + kOthersSeconds)
    return;
  for (const auto& node : world_.nodes()) {
    if (!world_.is_up(*node) || waits_for_ring(world_, *node)) continue;
    alarm_.raise("peer-{} still runs {:.0f} s after the first was done", node->peer, passed);
  }
}

// Whatever the others do.
void Checks::check_goes_on(const Node& node) {
  const double now = world_.seconds();
  const double left = left_at_[node.peer];
  if (left >= 0 && world_.started(node) <= left) {
    alarm_.raise("peer-{} was asked to leave {:.0f} s ago", node.peer, now - left);
  }
  const peer::Phase phase = node.core->phase();
  if (phase != peer::Phase::training && phase != peer::Phase::waiting) return;
  if (ring_is_over() && waits_for_ring(world_, node)) return;
  const double step_seconds = world_.plan().scenario.sim.step_ms / 1000 / node.speed;
  const double still =
      node.last_step ? base::seconds(world_.now() - *node.last_step) : now - last_change_;
  if (still > kStillSeconds + kStillSteps * step_seconds) {
    alarm_.raise("peer-{} has made no step for {:.1f} s", node.peer, still);
  }
}

// A ring is over with its first error; who waits for the rest of it makes no step.
bool Checks::ring_is_over() const {
  return failed_ > 0 && exchange::uses_ring(world_.task().config.exchange.mode);
}

// Whether peers are about to end, so that tables and links change. None takes long over it:
// check_stage.
bool Checks::ending() const {
  if (last_end_ >= 0 && world_.seconds() - last_end_ < kFarewellSeconds) return true;
  return std::ranges::any_of(world_.nodes(), [&](const auto& node) {
    return world_.is_up(*node) && (node->core->phase() == peer::Phase::settling ||
                                   node->core->phase() == peer::Phase::finishing);
  });
}

void Checks::check_liveness() {
  // A star is not made to become whole again: its middle may be gone.
  if (!world_.task().config.membership.hub.empty()) return;
  // A run that ends is over soon after its faults: its end is judged whenever it comes.
  if (first_done_ > last_fault_ + kCalmSeconds) check_end_of_run(world_, failed_ > 0, alarm_);
  const double past = world_.seconds() - last_fault_;
  if (past < kRecoverySeconds) return;
  bool any = false;
  for (const auto& node : world_.nodes()) any = any || world_.is_up(*node);
  if (!any) return;
  for (const auto& node : world_.nodes()) {
    if (world_.is_up(*node)) check_goes_on(*node);
  }
  if (ring_is_over()) return;
  if (ending()) return;
  if (!one_view()) alarm_.raise("{:.0f} s after the last fault tables differ", past);
  if (!connected(world_) && world_.seconds() > connected_at_ + kMomentSeconds) {
    alarm_.raise("{:.0f} s after the last fault the overlay is split", past);
  }
  for (const auto& node : world_.nodes()) {
    if (world_.is_up(*node)) check_queues(world_, *node, alarm_);
  }
  check_shards(world_, alarm_);
  check_replicas(world_, alarm_);
}

void Checks::finish() {
  if (!world_.breach().empty()) alarm_.raise("{}", world_.breach());
  if (failure().empty()) check_liveness();
  verdicts_.finish(world_.seconds());
  check_verdicts();
  check_coverage();
  for (const auto& node : world_.nodes()) {
    if (node->state == NodeState::running) close_gap(*node);
  }
}

}  // namespace starling::sim
