#include "sim/network/addresses.hpp"

#include <fmt/core.h>

namespace starling::sim {
namespace {

constexpr std::uint64_t kNatSeed = 0x4A7;  // so that nothing else depends on drawn ports
/// Ports that dials come from, if no router draws them.
constexpr std::uint64_t kFirstPort = 32768;
constexpr std::uint64_t kPorts = 28000;

std::vector<std::string> texts_of(const std::vector<base::IpPort>& ends) {
  std::vector<std::string> texts;
  texts.reserve(ends.size());
  for (const base::IpPort& end : ends) texts.push_back(to_string(end));
  return texts;
}

}  // namespace

Addresses::Addresses(const Plan& plan, const Nodes& nodes) : plan_(plan), nodes_(nodes) {
  if (!plan.scenario.nats.empty()) nat_.emplace(plan, plan.seed ^ kNatSeed);
}

void Addresses::settle(Node& node) {
  node.address =
      nat_ ? to_string(nat_->outer(node.peer).front()) : plan_.peers[node.peer].name + ":1";
  nodes_at_[node.address] = node.number;
}

void Addresses::add_twin(Node& twin) {
  twin.address = fmt::format("{}-twin-{}:1", plan_.peers[twin.peer].name, twin.number);
  nodes_at_[twin.address] = twin.number;
}

void Addresses::move(Node& node, double seconds) {
  nodes_at_.erase(node.address);
  if (nat_) {
    nat_->change_address(node.peer);
    return settle(node);
  }
  std::string name = fmt::format("{}-life-{}", plan_.peers[node.peer].name, node.life + 1);
  if (node.is_up()) name += fmt::format("-at-{:.3f}", seconds);
  node.address = name + ":1";
  nodes_at_[node.address] = node.number;
}

bool Addresses::can_reach(const Node& node, const std::string& address) const {
  const auto number = nat_ ? base::parse_ip_port(address) : std::nullopt;
  return !number || nat_->has_family(node.peer, number->ip.is_v6());
}

std::optional<Route> Addresses::find_route(const Node& node, const peer::Dial& dial,
                                           base::Time now) {
  const bool punches = dial.kind == peer::DialKind::punch;
  if (nat_) {
    const auto address = base::parse_ip_port(dial.address);
    if (!address) return std::nullopt;
    const auto passage = nat_->dial(node.peer, *address, punches, now);
    if (!passage) return std::nullopt;
    return Route{passage->to, to_string(passage->observed), passage->inside};
  }
  const Node* const to = find(dial.address);
  if (to == nullptr) return std::nullopt;
  // From a port of its own, or from its listening port.
  const std::string host = node.address.substr(0, node.address.rfind(':'));
  return Route{
      to->number,
      punches ? node.address : fmt::format("{}:{}", host, kFirstPort + node.dials % kPorts), true};
}

Node* Addresses::end_of(const Dialed& dialed) const {
  if (!nat_) return find(dialed.address);
  return dialed.route ? nodes_[dialed.route->to].get() : nullptr;
}

std::vector<std::string> Addresses::of(const std::vector<std::uint32_t>& peers) const {
  std::vector<std::string> addresses;
  for (const std::uint32_t peer : peers) {
    if (!nat_) {
      addresses.push_back(nodes_[peer]->address);
      continue;
    }
    for (std::string& end : texts_of(nat_->outer(peer))) addresses.push_back(std::move(end));
  }
  return addresses;
}

std::vector<std::string> Addresses::own(const Node& node) const {
  return nat_ ? texts_of(nat_->own(node.peer)) : std::vector{node.address};
}

Node* Addresses::find(const std::string& address) const {
  const auto found = nodes_at_.find(address);
  return found == nodes_at_.end() ? nullptr : nodes_[found->second].get();
}

}  // namespace starling::sim
