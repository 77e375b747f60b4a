#include "sim/checks/pairs.hpp"

#include <algorithm>

#include "sim/checks/survey.hpp"

namespace starling::sim {
namespace {

bool holds(const World& world, const Node& node, const Node& other) {
  const auto neighbours = node.core->membership().neighbours(world.local(node));
  return std::ranges::any_of(neighbours, [&](const auto& n) { return n.peer == other.id; });
}

/// How the two are linked as neighbours, if they are.
std::optional<LinkPath> path_between(const World& world, const Node& a, const Node& b) {
  if (!holds(world, a, b) || !holds(world, b, a)) return std::nullopt;
  return world.link_path(a, b);
}

}  // namespace

Pairs::Pairs(const World& world, double last_start) : world_(world), last_start_(last_start) {}

void Pairs::measure() {
  const Scenario& scenario = world_.plan().scenario;
  const double since = world_.seconds() - last_start_;
  if (since < 0) return;
  if (!linked_ && expects(scenario, Measure::pairs_linked_within_s) && all_linked()) {
    linked_ = since;
  }
  if (!paths_ && expects(scenario, Measure::paths_within_s) && paths_as_expected()) paths_ = since;
}

bool Pairs::all_linked() const {
  const auto& nodes = world_.nodes();
  for (std::size_t a = 0; a < nodes.size(); ++a) {
    if (nodes[a]->is_twin() || !trains(world_, *nodes[a])) continue;
    for (std::size_t b = 0; b < a; ++b) {
      if (nodes[b]->is_twin() || !trains(world_, *nodes[b])) continue;
      if (!path_between(world_, *nodes[a], *nodes[b])) return false;
    }
  }
  return true;
}

bool Pairs::paths_as_expected() const {
  const auto& nodes = world_.nodes();
  return std::ranges::all_of(world_.plan().scenario.paths, [&](const ExpectedPath& path) {
    const Node& a = *nodes[path.a];
    const Node& b = *nodes[path.b];
    return world_.is_up(a) && world_.is_up(b) && path_between(world_, a, b) == path.path;
  });
}

}  // namespace starling::sim
