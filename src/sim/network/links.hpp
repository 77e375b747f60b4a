// Links: ordered streams over a network that loses, delays and cuts.
//
// A link is what TCP with TLS provides: effects of the network on packets show as delay. A packet
// that is lost, or sent into a cut, stalls its direction until a retransmission gets through;
// pauses double between retransmissions, as in TCP. Over a path or a line of limited rate a frame
// goes packet by packet, at the rate of that moment. Acknowledgements return over the other path:
// while that one is cut, at most one window is delivered. A flipped bit that the transport's
// checksum misses reaches the reader of frames, which must refuse it.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sim/network/circuits.hpp"
#include "sim/network/connection.hpp"
#include "sim/network/paths.hpp"
#include "sim/shared.hpp"

namespace starling::sim {

class Links {
 public:
  /// All outlive this.
  Links(Shared& shared, const PathTable& paths, Circuits& circuits, Receiver& receiver)
      : shared_(shared), paths_(paths), circuits_(circuits), receiver_(receiver) {}

  /// A new link, of which both ends hear. `from` has dialed.
  Place connect(Node& from, Node& to, Terms terms);
  /// The node's end is over. With `reset`, data that it had not sent is lost.
  void close(Node& node, base::LinkId link, bool reset);
  void close_all(Node& node, bool reset);
  /// Links of these peers, or those of them that pass a router: nothing passes on them any more.
  void lose(const std::vector<std::uint32_t>& peers, bool through_routers);

  void act(Node& node, const peer::Send& action);
  void act(Node& node, const peer::Accept& action);
  void act(Node& node, const peer::Close& action) { close(node, action.link, false); }
  void act(Node& node, const peer::OpenCircuit& action);
  void act(Node& node, const peer::Relay& action);
  void act(Node& node, const peer::EndCircuit& action);

  void happen(const Arrive& arrive);
  void happen(const Turn& turn);
  void happen(const Part& part);
  void happen(const Retry& retry);
  void happen(const Closed& closed);
  void happen(const CircuitDialed& dialed);
  void happen(const CircuitBreaks& breaks);

  [[nodiscard]] std::optional<Place> find(const Node& node, base::LinkId link) const;
  /// The path of the link between the two, if there is one.
  [[nodiscard]] std::optional<LinkPath> path_between(const Node& a, const Node& b) const;
  /// Frames of the node that the network has not yet taken.
  [[nodiscard]] std::size_t unsent(const Node& node) const;

 private:
  using Reason = membership::LossReason;

  [[nodiscard]] base::Time now() const noexcept { return shared_.agenda.now(); }
  [[nodiscard]] Connection* find(const Place& place);
  /// The node of the end, if the end is open and the process still the same; nullptr: it is not.
  [[nodiscard]] Node* at_end(const End& end) const;
  [[nodiscard]] Place place_of(std::uint32_t slot) const {
    return {slot, connections_[slot].generation};
  }
  void push(std::uint32_t slot, int from, Item item);
  void serve(std::uint32_t slot, int from);
  [[nodiscard]] bool meet(const PathState& path, bool acknowledged, Stream& direction);
  [[nodiscard]] base::Time send_packet(std::uint32_t slot, int from);
  void announce(std::uint32_t slot, int from);
  void fly(std::uint32_t slot, int from);
  void stall(std::uint32_t slot, int from);
  void come_up(const Connection& connection, int side, Node& node);
  void receive(const Place& place, int side, Frame frame, Node& node);
  void drop(std::uint32_t slot, int side, Reason reason, const std::string& text);
  void release(std::uint32_t slot);
  /// One end of this link is gone, and so are the circuits that it carries. `orderly`: frames on
  /// their way still arrive.
  void leg_gone(std::uint32_t slot, bool orderly);
  [[nodiscard]] bool passes(Connection& connection) const;
  /// The path from end `from`, over the relay if there is one.
  [[nodiscard]] PathState path_state(const Connection& connection, int from) const;
  [[nodiscard]] bool path_cut(const Connection& connection, int from) const;
  /// The peers at the two ends of the connection.
  [[nodiscard]] std::pair<std::uint32_t, std::uint32_t> path_of(const Connection& connection,
                                                                int from) const;

  Shared& shared_;
  const PathTable& paths_;
  Circuits& circuits_;
  Receiver& receiver_;
  std::vector<Connection> connections_;
  std::vector<std::uint32_t> free_;
  std::uint64_t turns_ = 0;
  /// When the peer's line is free: out of it, and in.
  std::vector<std::array<base::Time, 2>> line_free_at_{shared_.plan.peers.size()};
};

}  // namespace starling::sim
