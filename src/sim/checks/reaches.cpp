#include "sim/checks/reaches.hpp"

namespace starling::sim {

namespace {

std::string host_of(const std::string& address) { return address.substr(0, address.rfind(':')); }

}  // namespace

void Reaches::started(const Node& node) { lived_.emplace(host_of(node.address), node.id); }

// Behind routers several share an address.
void Reaches::dialed(const Node& node, const peer::Dial& dial) {
  if (!world_.plan().scenario.nats.empty()) return;
  if (!dial.peer || lived_.contains({host_of(dial.address), *dial.peer})) return;
  alarm_.raise("peer-{} dials {} at {}, where that one never was", node.peer, dial.peer->brief(),
               dial.address);
}

void Reaches::relays(const Node& relay) {
  const reach::Config& config =
      world_.is_relay(relay) ? reach::kRelayConfig : world_.task().config.relay;
  const std::size_t most = config.circuits;
  if (world_.relayed(relay) > most) {
    alarm_.raise("peer-{} relays {} circuits, and takes {}", relay.peer, world_.relayed(relay),
                 most);
  }
}

}  // namespace starling::sim
