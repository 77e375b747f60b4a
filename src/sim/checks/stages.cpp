#include "sim/checks/stages.hpp"

#include <algorithm>
#include <string_view>

#include "sim/checks/survey.hpp"

namespace starling::sim {
namespace {

/// The first peer is done undisturbed if the faults had been over for this long.
constexpr double kCalmSeconds = 30;
/// How long the others may take for their last steps, in addition to settling, after the first is
/// done.
constexpr double kOthersSeconds = 60;
/// Time until all tables know of an end.
constexpr double kFarewellSeconds = 30;
/// If a peer has made no progress for this long, in seconds and in steps, it stands still.
constexpr double kStillSeconds = 10;
constexpr double kStillSteps = 100;

double still_limit(const World& world, const Node& node) {
  return kStillSeconds + kStillSteps * (world.plan().scenario.sim.step_ms / 1000 / node.speed);
}

}  // namespace

Stages::Stages(const World& world, const Calm& calm, const Steps& steps, Alarm& alarm,
               Findings& findings)
    : world_(world),
      calm_(calm),
      steps_(steps),
      alarm_(alarm),
      findings_(findings),
      stages_(world.nodes().size()),
      left_at_(world.nodes().size(), -1) {}

void Stages::started(const Node& node) {
  if (node.number >= stages_.size()) stages_.resize(node.number + 1);
  stages_[node.number] = {node.core->phase(), world_.seconds()};
}

void Stages::fault(const PlannedEvent& event, bool begins) {
  if (event.kind != Kind::leave || !begins) return;
  for (const std::uint32_t peer : event.peers) left_at_[peer] = world_.seconds();
}

void Stages::touched(Node& node) {
  Stage& stage = stages_[node.number];
  if (node.core->phase() == stage.phase) return;
  if (stage.phase == peer::Phase::settling) {
    check_settling(node, stage.since);
    check_left_out(node, stage.since);
  }
  stage = {node.core->phase(), world_.seconds()};
}

// If nothing disturbs or holds exchanges back, and all are honest, no peer waits in vain for its
// links to settle.
void Stages::check_settling(const Node& node, double since) {
  if (has_hostiles(world_.plan())) return;
  if (!calm_.clear() || !calm_.since(since)) return;
  const exchange::Config& config = world_.task().config.exchange;
  if (config.upload_limit > 0 || config.cpu_share > 0) return;
  if (world_.seconds() - since < base::seconds(config.settle_timeout)) return;
  alarm_.raise("peer-{} gave up settling", node.peer);
}

// Nor does it leave out anybody that answers, before its time is up.
void Stages::check_left_out(const Node& node, double since) {
  if (!calm_.clear() || !calm_.since(since)) return;
  const base::Duration timeout = world_.task().config.exchange.settle_timeout;
  const bool is_up = world_.seconds() - since >= base::seconds(timeout);
  const auto left_out = node.core->status(world_.now()).left_out;
  if (is_up || timeout <= exchange::kLateAfter || left_out.empty()) return;
  alarm_.raise("peer-{} settled without {}: {}", node.peer, left_out.front().name,
               base::name_of(left_out.front().why, exchange::kLeftOutNames));
}

void Stages::finished(const Node& node) {
  if (node.is_twin() || node.relay || node.hostile) return;
  last_end_ = world_.seconds();
  if (node.finished->reason == peer::EndReason::done) {
    if (first_done_ < 0) first_done_ = last_end_;
    last_done_ = last_end_;
  }
  if (node.finished->reason != peer::EndReason::failed) return;
  ++failed_;
  if (expects(world_.plan().scenario, Measure::failed_max)) return;
  alarm_.raise("peer-{} ended with an error: {}", node.peer, node.finished->error.text);
}

void Stages::finish() {
  findings_.measured[Measure::failed_max] = failed_;
  if (first_done_ >= 0) findings_.measured[Measure::ends_within_s] = last_done_ - first_done_;
}

void Stages::look_at(const Node& node) {
  if (node.hostile) return;
  const auto& [phase, since] = stages_[node.number];
  if (phase == peer::Phase::training || phase == peer::Phase::done) return;
  if (phase == peer::Phase::relaying) return;
  // All peers of a ring have to be there.
  if (waits_for_ring(world_, node)) return;
  if (node.state != NodeState::running || calm_.disturbed(node.peer)) return;
  const peer::Config& config = world_.task().config;
  double limit = still_limit(world_, node);
  std::string_view what = "finishes";
  if (phase == peer::Phase::waiting) {
    limit += base::seconds(config.membership.wait_timeout);
    what = "waits for its links";
  } else if (phase == peer::Phase::settling) {
    limit += base::seconds(config.exchange.settle_timeout);
    what = "settles";
  }
  if (exchange::uses_ring(config.exchange.mode)) limit += base::seconds(ring::kGrace);
  const double passed = world_.seconds() - std::max(since, calm_.healthy_at(node.peer));
  if (passed > limit) alarm_.raise("peer-{} {} for {:.0f} s", node.peer, what, passed);
}

// If one peer knows the others' samples, all soon know them.
void Stages::second_ends() {
  if (!done_undisturbed()) return;
  const double passed = world_.seconds() - first_done_;
  if (passed <= base::seconds(world_.task().config.exchange.settle_timeout) + kOthersSeconds)
    return;
  for (const auto& node : world_.nodes()) {
    if (!trains(*node) || node->hostile || waits_for_ring(world_, *node)) continue;
    alarm_.raise("peer-{} still runs {:.0f} s after the first was done", node->peer, passed);
  }
}

void Stages::check_goes_on(const Node& node) {
  if (node.hostile) return;
  const double now = world_.seconds();
  const double left = left_at_[node.peer];
  if (left >= 0 && world_.started(node) <= left) {
    alarm_.raise("peer-{} was asked to leave {:.0f} s ago", node.peer, now - left);
  }
  const peer::Phase phase = node.core->phase();
  if (phase != peer::Phase::training && phase != peer::Phase::waiting) return;
  if (ring_is_over() && waits_for_ring(world_, node)) return;
  const auto& last = steps_.last(node);
  const double still = last ? base::seconds(world_.now() - *last) : now - calm_.last_change();
  if (still > still_limit(world_, node)) {
    alarm_.raise("peer-{} has made no step for {:.1f} s", node.peer, still);
  }
}

bool Stages::ending() const {
  if (last_end_ >= 0 && world_.seconds() - last_end_ < kFarewellSeconds) return true;
  return std::ranges::any_of(world_.nodes(), [&](const auto& node) {
    return node->is_up() && (node->core->phase() == peer::Phase::settling ||
                             node->core->phase() == peer::Phase::finishing);
  });
}

bool Stages::done_undisturbed() const { return first_done_ > calm_.times().last + kCalmSeconds; }

bool Stages::ring_is_over() const {
  if (!exchange::uses_ring(world_.task().config.exchange.mode)) return false;
  // Peers that could have noticed a death may have died before they did.
  return failed_ > 0 || std::ranges::any_of(world_.nodes(), [&](const auto& node) {
           return !node->is_up() && !node->finished;
         });
}

}  // namespace starling::sim
