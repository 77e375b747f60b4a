#include "sim/checks/soundness.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

namespace starling::sim {
namespace {

/// Events that may wait for a process that stands still.
constexpr std::size_t kHeldMax = 1'000'000;
/// Jobs of a peer and frames on its links that may wait when nothing disturbs it.
constexpr std::size_t kJobsWaitingMax = 16;
constexpr std::size_t kFramesWaitingMax = 64;

void require(const Node& node, const base::Bounds& bounds, Alarm& alarm) {
  const auto& broken = bounds.broken();
  if (!broken) return;
  alarm.raise("of peer-{}, {}: {}, at most {}", node.peer, broken->what, broken->size,
              broken->limit);
}

}  // namespace

void check_bounds(const Node& node, Alarm& alarm) {
  base::Bounds bounds;
  node.core->add_bounds(bounds);
  node.worker->add_bounds(bounds);
  bounds.add("connections", node.links.size(), peer::kConnectionsMax);
  bounds.add("events of a process that stands still", node.held.size(), kHeldMax);
  require(node, bounds, alarm);
}

void check_timers(const World& world, const Node& node, Alarm& alarm) {
  base::Bounds bounds;
  node.core->add_timers(world.local(node), bounds);
  require(node, bounds, alarm);
}

void check_queues(const World& world, const Node& node, Alarm& alarm) {
  if (!node.held.empty() && node.state == NodeState::running) {
    alarm.raise("peer-{} has not taken {} events", node.peer, node.held.size());
  }
  if (node.worker->waiting() > kJobsWaitingMax) {
    alarm.raise("{} jobs of peer-{} wait", node.worker->waiting(), node.peer);
  }
  const std::size_t unsent = world.unsent(node);
  if (unsent > kFramesWaitingMax) alarm.raise("{} frames of peer-{} wait", unsent, node.peer);
}

void check_finite(const World& world, const Node& node, Alarm& alarm) {
  if (expects(world.plan().scenario, Measure::failed_max)) return;
  const exchange::Replica& replica = node.worker->replica();
  std::vector<float> values(replica.size());
  replica.read(values);
  const auto finite = [](float value) { return std::isfinite(value); };
  if (!std::ranges::all_of(values, finite)) {
    alarm.raise("the replica of peer-{} is not finite", node.peer);
  }
}

// Beside the parameters, and not in the ledger: averages need not add up.
void check_buffers(const World& world, const Node& node, Alarm& alarm) {
  const exchange::BufferSpec& spec = world.task().buffers;
  const auto values = node.worker->replica().buffers().values();
  if (values.size() != spec.initial.size()) {
    return alarm.raise("peer-{} has {} buffers", node.peer, values.size());
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (std::isfinite(values[i]) && values[i] >= spec.least[i]) continue;
    return alarm.raise("buffer {} of peer-{} is {}", i, node.peer, values[i]);
  }
}

}  // namespace starling::sim
