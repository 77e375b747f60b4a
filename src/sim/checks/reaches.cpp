#include "sim/checks/reaches.hpp"

namespace starling::sim {

void Reaches::started(const Node& node) { lived_.emplace(node.address, node.id); }

void Reaches::dialed(const Node& node, const peer::Dial& dial) {
  if (!dial.peer || lived_.contains({dial.address, *dial.peer})) return;
  alarm_.raise("peer-{} dials {} at {}, where that one never was", node.peer, dial.peer->brief(),
               dial.address);
}

void Reaches::relays(const Node& relay) {
  const std::size_t most = world_.task().config.relay.circuits;
  if (world_.relayed(relay) > most) {
    alarm_.raise("peer-{} relays {} circuits, and takes {}", relay.peer, world_.relayed(relay),
                 most);
  }
}

}  // namespace starling::sim
