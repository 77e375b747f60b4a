#include "sim/checks/survey.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "sim/checks/spectral_gap.hpp"

namespace starling::sim {
namespace {

std::size_t count_trainers(const World& world) {
  return static_cast<std::size_t>(
      std::ranges::count_if(world.nodes(), [&](const auto& node) { return counts(*node); }));
}

/// Only those with a replica.
std::vector<membership::NeighbourInfo> neighbours_of(const World& world, const Node& node) {
  const membership::Core& membership = node.core->membership();
  auto neighbours = membership.neighbours(world.local(node));
  std::erase_if(neighbours, [&](const auto& neighbour) {
    return membership.table().relays().contains(neighbour.peer);
  });
  return neighbours;
}

}  // namespace

bool trains(const Node& node) { return node.is_up() && !node.relay; }

std::size_t count_running(const World& world) {
  return static_cast<std::size_t>(std::ranges::count_if(world.nodes(), [&](const auto& node) {
    return node->is_up() && !node->is_twin() && !node->hostile;
  }));
}

bool counts(const Node& node) { return trains(node) && !node.is_twin() && !node.hostile; }

bool any_up(const World& world) {
  return std::ranges::any_of(world.nodes(),
                             [&](const auto& node) { return trains(*node) && !node->hostile; });
}

bool connected(const World& world) {
  std::map<base::PeerId, const Node*> running;
  for (const auto& node : world.nodes()) {
    if (trains(*node)) running.emplace(node->id, node.get());
  }
  const auto is_honest = [](const auto& entry) { return !entry.second->hostile; };
  const auto first = std::ranges::find_if(running, is_honest);
  if (first == running.end()) return false;
  std::set<base::PeerId> seen{first->first};
  std::vector<const Node*> open{first->second};
  while (!open.empty()) {
    const Node* const node = open.back();
    open.pop_back();
    for (const auto& neighbour : neighbours_of(world, *node)) {
      const auto other = running.find(neighbour.peer);
      if (other == running.end() || !seen.insert(neighbour.peer).second) continue;
      open.push_back(other->second);
    }
  }
  return std::ranges::all_of(running, [&](const auto& entry) {
    return entry.second->hostile || seen.contains(entry.first);
  });
}

bool lacks_hub(const World& world) {
  const std::string& hub = world.task().config.membership.hub;
  return !hub.empty() && std::ranges::none_of(world.nodes(), [&](const auto& node) {
    return counts(*node) && world.plan().peers[node->peer].name == hub;
  });
}

bool all_linked(const World& world) {
  return std::ranges::all_of(world.nodes(), [&](const auto& node) {
    return !trains(*node) || node->hostile || node->core->exchange().open_links() > 0;
  });
}

bool views_full(const World& world) {
  const membership::Config& config = world.task().config.membership;
  if (!config.hub.empty()) return connected(world);
  const std::size_t running = count_trainers(world);
  if (running == 0) return false;
  const std::size_t wanted = std::min<std::size_t>(config.degree, running - 1);
  return std::ranges::all_of(world.nodes(), [&](const auto& node) {
    return !counts(*node) || neighbours_of(world, *node).size() >= wanted;
  });
}

std::optional<double> overlay_gap(const World& world) {
  std::map<base::PeerId, std::uint32_t> running;
  for (const auto& node : world.nodes()) {
    if (counts(*node)) {
      running.emplace(node->id, static_cast<std::uint32_t>(running.size()));
    }
  }
  if (running.empty()) return std::nullopt;
  std::set<Edge> told;
  for (const auto& node : world.nodes()) {
    const auto own = running.find(node->id);
    if (!trains(*node) || own == running.end()) continue;
    for (const auto& neighbour : neighbours_of(world, *node)) {
      const auto other = running.find(neighbour.peer);
      if (other != running.end()) told.emplace(own->second, other->second);
    }
  }
  std::vector<Edge> edges;
  for (const auto& [a, b] : told) {
    if (a < b && told.contains({b, a})) edges.emplace_back(a, b);
  }
  return spectral_gap(running.size(), edges);
}

bool waits_for_ring(const World& world, const Node& node) {
  return node.core->phase() == peer::Phase::waiting &&
         exchange::uses_ring(world.task().config.exchange.mode);
}

}  // namespace starling::sim
