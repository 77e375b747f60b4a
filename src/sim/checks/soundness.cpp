// Invariants of a single peer.
#include <algorithm>
#include <cmath>
#include <vector>

#include "sim/checks/check.hpp"

namespace starling::sim {
namespace {

/// Events that may wait for a process that stands still.
constexpr std::size_t kHeldMax = 1'000'000;
void require(const Node& node, const base::Bounds& bounds, Alarm& alarm) {
  const auto& broken = bounds.broken();
  if (!broken) return;
  alarm.raise("of peer-{}, {}: {}, at most {}", node.peer, broken->what, broken->size,
              broken->limit);
}

class Soundness final : public Check {
 public:
  explicit Soundness(const Scene& scene) : world_(scene.world), alarm_(scene.alarm) {}

  /// Everything that can grow is within its limit.
  void touched(Node& node) override;
  void look_at(const Node& node) override {
    if (node.hostile) return;
    check_finite(node);
    check_buffers(node);
  }
  /// No timer waits for longer than it may.
  void inspect(const Node& node) override;

 private:
  /// If peers may end with an error, a replica may diverge first.
  void check_finite(const Node& node);
  /// There are as many buffers as there should be, with values in their ranges.
  void check_buffers(const Node& node);

  const World& world_;
  Alarm& alarm_;
};

void Soundness::touched(Node& node) {
  base::Bounds bounds;
  node.core->add_bounds(bounds);
  node.worker->add_bounds(bounds);
  bounds.add("connections", node.links.size(), peer::kConnectionsMax);
  bounds.add("events of a process that stands still", node.held.size(), kHeldMax);
  require(node, bounds, alarm_);
}

void Soundness::inspect(const Node& node) {
  base::Bounds bounds;
  node.core->add_timers(world_.local(node), bounds);
  require(node, bounds, alarm_);
}

void Soundness::check_finite(const Node& node) {
  if (expects(world_.plan().scenario, Measure::failed_max)) return;
  const exchange::Replica& replica = node.worker->replica();
  std::vector<float> values(replica.size());
  replica.read(values);
  const auto finite = [](float value) { return std::isfinite(value); };
  if (!std::ranges::all_of(values, finite)) {
    alarm_.raise("the replica of peer-{} is not finite", node.peer);
  }
}

// Buffers are outside the parameters and the ledger: averages need not add up.
void Soundness::check_buffers(const Node& node) {
  const exchange::BufferSpec& spec = world_.task().buffers;
  const auto values = node.worker->replica().buffers().values();
  if (values.size() != spec.initial.size()) {
    return alarm_.raise("peer-{} has {} buffers", node.peer, values.size());
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (std::isfinite(values[i]) && values[i] >= spec.least[i]) continue;
    return alarm_.raise("buffer {} of peer-{} is {}", i, node.peer, values[i]);
  }
}

}  // namespace

std::unique_ptr<Check> make_soundness(const Scene& scene) {
  return std::make_unique<Soundness>(scene);
}

}  // namespace starling::sim
