// Circuits: links over a third peer. A circuit is a connection whose path is that of both legs, and
// which breaks when a leg or the relay does.
#include <algorithm>

#include <fmt/core.h>

#include "reach/limits.hpp"
#include "sim/world.hpp"

namespace starling::sim {

std::optional<World::Place> World::place_of(const Node& node, base::LinkId link) const {
  const auto found = node.links.find(link);
  if (found == node.links.end()) return std::nullopt;
  return Place{found->second, connections_[found->second].generation};
}

std::map<std::uint64_t, World::Circuit>::iterator World::find_circuit(const Node& relay,
                                                                      base::LinkId link,
                                                                      std::uint32_t number) {
  return std::ranges::find_if(circuits_, [&](const auto& entry) {
    const Circuit& circuit = entry.second;
    if (circuit.relay != relay.number || circuit.life != relay.life) return false;
    return (circuit.links[0] == link && circuit.numbers[0] == number) ||
           (circuit.links[1] == link && circuit.numbers[1] == number);
  });
}

// The entry for the end of the circuit that has this leg.
std::vector<World::Opened>::iterator World::find_opened(const Circuit& circuit, int leg) {
  const auto i = static_cast<std::size_t>(leg);
  return std::ranges::find_if(opened_, [&](const Opened& opened) {
    return opened.leg == circuit.legs[i] && opened.number == circuit.numbers[i] &&
           opened.node != circuit.relay && nodes_[opened.node]->life == opened.life;
  });
}

std::size_t World::relayed(const Node& node) const {
  return static_cast<std::size_t>(std::ranges::count_if(circuits_, [&](const auto& entry) {
    return entry.second.relay == node.number && entry.second.life == node.life;
  }));
}

void World::act(Node& node, const peer::OpenCircuit& action) {
  const auto place = place_of(node, action.link);
  if (!place) return tell_over(node, action.link, action.number, 0);
  const Opened opened{node.number, node.life, action.link, action.number, *place};
  opened_.push_back(opened);
  if (!action.dialer) return;
  // TLS takes a round trip over both legs; the other leg is not known here.
  const Connection& connection = connections_[place->slot];
  const int side = side_of(connection, node, action.link);
  const PathState there = path_state(connection, side);
  const PathState back = path_state(connection, 1 - side);
  after(base::from_seconds(2 * (there.latency_ms + back.latency_ms) / 1000), CircuitDialed{opened});
}

void World::act(Node& node, const peer::Relay& action) {
  const auto a = place_of(node, action.a);
  const auto b = place_of(node, action.b);
  if (!a || !b) {
    after({}, CircuitOver{node.number, node.life, action.a, action.number_a, 0});
    return;
  }
  circuits_[++last_circuit_] = {.relay = node.number,
                                .life = node.life,
                                .links = {action.a, action.b},
                                .numbers = {action.number_a, action.number_b},
                                .legs = {*a, *b}};
  after(reach::kCircuitIdle, CircuitIdle{last_circuit_});
  if (observer_ != nullptr) observer_->relays(node);
}

void World::act(Node& node, const peer::EndCircuit& action) {
  if (const auto at = find_circuit(node, action.link, action.number); at != circuits_.end()) {
    return end_circuit(at);
  }
  for (auto at = circuits_.begin(); at != circuits_.end(); ++at) {
    for (const int leg : {0, 1}) {
      const auto opened = find_opened(at->second, leg);
      if (opened == opened_.end() || opened->node != node.number || opened->link != action.link ||
          opened->number != action.number) {
        continue;
      }
      return end_circuit(at);
    }
  }
  tell_over(node, action.link, action.number, 0);
}

void World::happen(CircuitDialed& dialed) {
  Node& node = *nodes_[dialed.by.node];
  if (node.life != dialed.by.life || !is_up(node)) return;
  const auto found = std::ranges::find_if(circuits_, [&](const auto& entry) {
    const auto opened = find_opened(entry.second, 0);
    return opened != opened_.end() && opened->node == node.number &&
           opened->link == dialed.by.link && opened->number == dialed.by.number;
  });
  if (found == circuits_.end()) {
    return tell_over(node, dialed.by.link, dialed.by.number, 0);
  }
  const auto other = find_opened(found->second, 1);
  Node& relay = *nodes_[found->second.relay];
  const bool there = other != opened_.end() && is_up(*nodes_[other->node]) && is_up(relay) &&
                     relay.state == NodeState::running && !found->second.connection &&
                     node.state == NodeState::running;
  if (!there) return end_circuit(found);
  if (tracing()) {
    trace(fmt::format("circuit of peer-{} and peer-{} over peer-{}", node.number, other->node,
                      relay.number));
  }
  const std::uint64_t id = found->first;
  const Route route{other->node, {}, true};
  connect(node, *nodes_[other->node], Dialed{node.number, node.life, {}, true, route, 0}, id);
  const std::uint32_t slot = node.links.at(base::LinkId{node.last_link, 1});
  circuits_.at(id).connection = Place{slot, connections_[slot].generation};
}

void World::happen(CircuitOver& over) {
  Node& node = *nodes_[over.node];
  if (node.life != over.life || !is_up(node)) return;
  give(node, peer::CircuitEnded{over.link, over.number, over.bytes});
}

void World::happen(CircuitBreaks& breaks) {
  const Connection& connection = connections_[breaks.connection.slot];
  if (connection.generation != breaks.connection.generation) return;
  if (!connection.ends[breaks.side].open) return;
  drop(breaks.connection.slot, breaks.side, Reason::reset, "the circuit is over");
}

void World::happen(CircuitIdle& idle) {
  const auto found = circuits_.find(idle.circuit);
  if (found != circuits_.end() && !found->second.connection) end_circuit(found);
}

// Delivered after everything that was said of its link.
void World::tell_over(const Node& node, base::LinkId link, std::uint32_t number,
                      std::uint64_t bytes) {
  std::erase_if(opened_, [&](const Opened& opened) {
    return opened.node == node.number && opened.life == node.life && opened.link == link &&
           opened.number == number;
  });
  after({}, CircuitOver{node.number, node.life, link, number, bytes});
}

// Its ends hear of it at once, however far the relay is, except for frames on their way if it ends
// in good order.
void World::end_circuit(std::map<std::uint64_t, Circuit>::iterator at, bool orderly) {
  const Circuit circuit = at->second;
  base::Duration rest{};
  if (orderly && circuit.connection) {
    const PathState path = path_state(connections_[circuit.connection->slot], 0);
    rest = base::from_seconds(path.latency_ms / 1000) + std::chrono::milliseconds(1);
  }
  std::array<std::optional<Opened>, 2> ends;
  for (const int leg : {0, 1}) {
    const auto opened = find_opened(circuit, leg);
    if (opened != opened_.end()) ends[static_cast<std::size_t>(leg)] = *opened;
  }
  circuits_.erase(at);
  for (const int leg : {0, 1}) {
    const auto i = static_cast<std::size_t>(leg);
    if (circuit.connection) after(rest, CircuitBreaks{*circuit.connection, leg});
    if (!ends[i]) continue;
    const Node& node = *nodes_[ends[i]->node];
    tell_over(node, ends[i]->link, ends[i]->number, 0);
  }
  const Node& relay = *nodes_[circuit.relay];
  if (relay.life == circuit.life && is_up(relay)) {
    after({}, CircuitOver{relay.number, relay.life, circuit.links[0], circuit.numbers[0],
                          circuit.bytes});
  }
}

void World::leg_gone(std::uint32_t slot, bool orderly) {
  const Place gone{slot, connections_[slot].generation};
  for (;;) {
    const auto at = std::ranges::find_if(circuits_, [&](const auto& entry) {
      return std::ranges::find(entry.second.legs, gone) != entry.second.legs.end();
    });
    if (at == circuits_.end()) break;
    end_circuit(at, orderly);
  }
  // Ends of circuits that have not begun.
  const std::vector<Opened> opened = opened_;
  for (const Opened& end : opened) {
    if (end.leg == gone) tell_over(*nodes_[end.node], end.link, end.number, 0);
  }
}

}  // namespace starling::sim
