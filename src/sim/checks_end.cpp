// How a peer comes to its end, and that it does; what must hold when all faults are over.
#include <algorithm>

#include <fmt/format.h>

#include "sim/checks.hpp"

namespace starling::sim {
namespace {

/// Of the replicas at the end of a run, if the faults were over for this long before.
constexpr double kEndDistanceMax = 0.05;
/// Of equal ones, whose mean is rounded.
constexpr double kRingDistanceMax = 1e-6;
/// Of their buffers where rare branches drop links all the time: who has lost a link does not wait
/// for that neighbour, and buffers have fewer exchanges to come together in than replicas.
constexpr double kEndBuffersRareMax = 0.25;
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
  fail(fmt::format("peer-{} ended with an error: {}", node.peer, node.finished->error.text));
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
  if (waits_for_ring(node)) return;
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
  if (passed > limit) fail(fmt::format("peer-{} {} for {:.0f} s", node.peer, what, passed));
}

// Where nothing disturbs, what one knows of the others' samples all know soon.
void Checks::check_end() {
  if (first_done_ < last_fault_ + kCalmSeconds) return;
  const double passed = world_.seconds() - first_done_;
  if (passed <= base::seconds(world_.task().config.exchange.settle_timeout) + kOthersSeconds)
    return;
  for (const auto& node : world_.nodes()) {
    if (!world_.is_up(*node) || waits_for_ring(*node)) continue;
    fail(fmt::format("peer-{} still runs {:.0f} s after the first was done", node->peer, passed));
  }
}

// A run that ended undisturbed leaves all with the same replica, and a ring to the bit.
void Checks::check_ended() {
  const exchange::Mode mode = world_.task().config.exchange.mode;
  const auto apart = distance(false);
  if (exchange::uses_ring(mode) && failed_ == 0 && apart && !(*apart <= kRingDistanceMax)) {
    fail(fmt::format("the ring ended with replicas {} from their mean", *apart));
  }
  if (!exchange::uses_links(mode)) return;
  if (apart && !(*apart <= kEndDistanceMax)) {
    fail(fmt::format("the run ended with replicas {} from their mean", *apart));
  }
  const auto buffers = buffer_distance();
  const bool rare = world_.plan().scenario.sim.buggify;
  if (buffers && !(*buffers <= (rare ? kEndBuffersRareMax : kEndDistanceMax))) {
    fail(fmt::format("the run ended with buffers {} from their mean", *buffers));
  }
}

// Whatever the others do.
void Checks::check_goes_on(const Node& node) {
  const double now = world_.seconds();
  const double left = left_at_[node.peer];
  if (left >= 0 && base::seconds(node.started - World::kStart) <= left) {
    fail(fmt::format("peer-{} was asked to leave {:.0f} s ago", node.peer, now - left));
  }
  const peer::Phase phase = node.core->phase();
  if (phase != peer::Phase::training && phase != peer::Phase::waiting) return;
  if (ring_is_over() && waits_for_ring(node)) return;
  const double step_seconds = world_.plan().scenario.sim.step_ms / 1000 / node.speed;
  const double still =
      node.last_step ? base::seconds(world_.now() - *node.last_step) : now - last_change_;
  if (still > kStillSeconds + kStillSteps * step_seconds) {
    fail(fmt::format("peer-{} has made no step for {:.1f} s", node.peer, still));
  }
}

bool Checks::waits_for_ring(const Node& node) const {
  return node.core->phase() == peer::Phase::waiting &&
         exchange::uses_ring(world_.task().config.exchange.mode);
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
  if (first_done_ > last_fault_ + kCalmSeconds) check_ended();
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
  if (!one_view()) fail(fmt::format("{:.0f} s after the last fault tables differ", past));
  if (!connected() && world_.seconds() > connected_at_ + kMomentSeconds) {
    fail(fmt::format("{:.0f} s after the last fault the overlay is split", past));
  }
  for (const auto& node : world_.nodes()) {
    if (world_.is_up(*node)) check_queues(*node);
  }
  check_shards();
  if (world_.plan().scenario.sim.problem == Problem::quadratic) check_agreement();
}

void Checks::finish() {
  if (!world_.breach().empty()) fail(world_.breach());
  if (failure_.empty()) check_liveness();
  verdicts_.finish(world_.seconds());
  check_verdicts();
  check_coverage();
  for (const auto& node : world_.nodes()) {
    if (node->state == NodeState::running) close_gap(*node);
  }
}

}  // namespace starling::sim
