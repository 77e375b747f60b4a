// Where the processes of the simulated world are: their addresses, and the routers between them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "sim/network/nat.hpp"
#include "sim/node.hpp"

namespace starling::sim {

/// Without routers, addresses are names; with them, they are IP addresses.
class Addresses {
 public:
  /// Both outlive this.
  Addresses(const Plan& plan, const Nodes& nodes);

  /// A node's first address.
  void settle(Node& node);
  void add_twin(Node& twin);
  /// The node gets another address; the old one no longer answers. A running peer may move several
  /// times.
  void move(Node& node, double seconds);

  /// Whether the node's machine can send to such an address at all.
  [[nodiscard]] bool can_reach(const Node& node, const std::string& address) const;
  /// The way of a dial that begins now; nothing: nobody is there, or a router is in the way.
  [[nodiscard]] std::optional<Route> find_route(const Node& node, const peer::Dial& dial,
                                                base::Time now);
  /// The node at the end of a dial that was made; nullptr: nobody is there.
  [[nodiscard]] Node* end_of(const Dialed& dialed) const;
  /// The addresses that others would have to dial.
  [[nodiscard]] std::vector<std::string> of(const std::vector<std::uint32_t>& peers) const;
  /// The addresses that its machine and its router tell the node.
  [[nodiscard]] std::vector<std::string> own(const Node& node) const;
  /// The peers whose addresses change with this one's.
  [[nodiscard]] std::vector<std::uint32_t> concerned(std::uint32_t peer) const {
    return nat_ ? nat_->neighbours(peer) : std::vector{peer};
  }
  /// The routers, if there are any.
  [[nodiscard]] Nat* nat() noexcept { return nat_ ? &*nat_ : nullptr; }

 private:
  [[nodiscard]] Node* find(const std::string& address) const;

  const Plan& plan_;
  const Nodes& nodes_;
  std::optional<Nat> nat_;
  std::unordered_map<std::string, std::uint32_t> nodes_at_;
};

}  // namespace starling::sim
