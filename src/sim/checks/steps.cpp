#include "sim/checks/steps.hpp"

namespace starling::sim {
namespace {

/// Whatever happens to its links, a peer goes on, unless a fault holds up the peer itself.
bool holds_up_itself(Kind kind) {
  return kind == Kind::stop || kind == Kind::throttle || kind == Kind::skew || kind == Kind::twin;
}

}  // namespace

void Steps::started(const Node& node) {
  if (node.number >= last_.size()) last_.resize(node.number + 1);
  last_[node.number].reset();
}

void Steps::touched(Node& node) {
  if (node.core->phase() != peer::Phase::training) close_gap(node);
}

void Steps::stepped(const Node& node, std::uint32_t samples) {
  if (node.hostile) return;
  if (close_gap(node)) pace_.add(samples);
  // Steps that were handed out may end when training is over.
  if (node.core->phase() == peer::Phase::training) last_[node.number] = world_.now();
}

void Steps::fault(const PlannedEvent& event, bool begins) {
  if (!holds_up_itself(event.kind)) return;
  for (const std::uint32_t number : event.peers) {
    if (begins) close_gap(*world_.nodes()[number]);
    last_[number].reset();
  }
}

void Steps::finish() {
  for (const auto& node : world_.nodes()) {
    if (node->state == NodeState::running) close_gap(*node);
  }
  findings_.measured[Measure::step_gap_max_s] = pace_.longest_gap();
  const std::uint32_t batch = world_.task().run_file.train.batch;
  findings_.measured[Measure::throughput_min] = pace_.throughput(batch);
}

// The time since the last step ends, with another step or an event that ends the peer's steps. The
// time before its first step is not a gap. Returns whether there was a gap.
bool Steps::close_gap(const Node& node) {
  const double speed = world_.plan().peers[node.peer].speed;
  std::optional<base::Time>& last = last_[node.number];
  if (!last || node.speed != speed || node.clock.rate() != 1) return false;
  const double gap = base::seconds(world_.now() - *last);
  last.reset();
  pace_.gap(gap, speed * 1000 / world_.plan().scenario.sim.step_ms);
  return true;
}

}  // namespace starling::sim
