// Help for peers that cannot be dialed: no peer is made to dial a third one, and relays take no
// more circuits than they allow.
#include <set>
#include <string>
#include <utility>

#include "sim/checks/check.hpp"

namespace starling::sim {
namespace {

std::string host_of(const std::string& address) { return address.substr(0, address.rfind(':')); }

class Reaches final : public Check {
 public:
  explicit Reaches(const Scene& scene) : world_(scene.world), alarm_(scene.alarm) {}

  void started(const Node& node) override;
  void dialed(const Node& node, const peer::Dial& dial, bool answers) override;
  void relays(const Node& relay) override;

 private:
  const World& world_;
  Alarm& alarm_;
  std::set<std::pair<std::string, base::PeerId>> lived_;  ///< all peers that were ever at a host
};

void Reaches::started(const Node& node) { lived_.emplace(host_of(node.address), node.id); }

// Behind routers several peers share an address.
void Reaches::dialed(const Node& node, const peer::Dial& dial, bool /*answers*/) {
  if (!world_.plan().scenario.nats.empty()) return;
  if (!dial.peer || lived_.contains({host_of(dial.address), *dial.peer})) return;
  alarm_.raise("peer-{} dials {} at {}, where that one never was", node.peer, dial.peer->brief(),
               dial.address);
}

void Reaches::relays(const Node& relay) {
  const reach::Config& config = relay.relay ? reach::kRelayConfig : world_.task().config.relay;
  const std::size_t most = config.circuits;
  if (world_.relayed(relay) > most) {
    alarm_.raise("peer-{} relays {} circuits, and takes {}", relay.peer, world_.relayed(relay),
                 most);
  }
}

}  // namespace

std::unique_ptr<Check> make_reaches(const Scene& scene) { return std::make_unique<Reaches>(scene); }

}  // namespace starling::sim
