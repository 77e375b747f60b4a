// Whether any two running peers are linked, and which paths their links have.
#include <algorithm>
#include <vector>

#include "sim/checks/check.hpp"
#include "sim/checks/survey.hpp"
#include "sim/judge/meters.hpp"

namespace starling::sim {
namespace {

bool holds(const World& world, const Node& node, const Node& other) {
  const auto neighbours = node.core->membership().neighbours(world.local(node));
  return std::ranges::any_of(neighbours, [&](const auto& n) { return n.peer == other.id; });
}

/// The path of the link between the two, if they are neighbours.
std::optional<LinkPath> path_between(const World& world, const Node& a, const Node& b) {
  if (!a.is_up() || !b.is_up()) return std::nullopt;
  if (!holds(world, a, b) || !holds(world, b, a)) return std::nullopt;
  return world.link_path(a, b);
}

class Pairs final : public Check {
 public:
  explicit Pairs(const Scene& scene)
      : world_(scene.world),
        findings_(scene.findings),
        last_start_(scene.calm.times().last_start),
        times_(scene.world.plan().scenario) {}

  void second() override {
    const double since = world_.seconds() - last_start_;
    if (since < 0) return;
    std::vector<std::uint32_t> running;
    for (const auto& node : world_.nodes()) {
      if (!node->is_twin() && !node->hostile && trains(*node)) running.push_back(node->number);
    }
    times_.look(since, running, [&](std::uint32_t a, std::uint32_t b) {
      return path_between(world_, *world_.nodes()[a], *world_.nodes()[b]);
    });
  }
  void finish() override {
    findings_.measured[Measure::pairs_linked_within_s] = times_.linked_within();
    findings_.measured[Measure::paths_within_s] = times_.paths_within();
  }

 private:
  const World& world_;
  Findings& findings_;
  const double last_start_;  ///< seconds
  PairTimes times_;
};

}  // namespace

std::unique_ptr<Check> make_pairs(const Scene& scene) { return std::make_unique<Pairs>(scene); }

}  // namespace starling::sim
