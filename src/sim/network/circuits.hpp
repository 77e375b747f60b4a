// Circuits: links over a third peer. A circuit is a connection whose path is that of both legs, and
// which breaks when a leg or the relay does. This is the table of them, and what each of those
// concerned has yet to hear.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "sim/agenda.hpp"
#include "sim/shared.hpp"

namespace starling::sim {

/// A circuit at its relay, from Relay to CircuitEnded. Leg 0 is the dialer's.
struct Circuit {
  Life relay;
  std::array<base::LinkId, 2> links;  ///< of the relay
  std::array<std::uint32_t, 2> numbers{};
  std::array<Place, 2> legs{};
  std::optional<Place> connection{};
  std::uint64_t bytes = 0;
};

class Circuits {
 public:
  /// Both outlive this.
  Circuits(Shared& shared, Receiver& receiver) : shared_(shared), receiver_(receiver) {}

  /// An end asks for its half, over `leg`.
  void open(const CircuitEnd& end, const Place& leg) { opened_.push_back({end, leg}); }
  /// A relay joins two halves. The circuit ends if it is not used soon.
  void join(Circuit circuit);
  void connect(std::uint64_t number, const Place& connection) {
    circuits_.at(number).connection = connection;
  }
  /// So many bytes have passed, if there is such a circuit.
  void carry(std::uint64_t number, std::size_t bytes);
  /// Its connection is over, and so is the circuit, if it is not yet.
  void disconnect(std::uint64_t number);
  /// The circuit of this number; nullptr: it is over.
  [[nodiscard]] const Circuit* find(std::uint64_t number) const;
  /// The number of the circuit that has this leg, or whose dialer's end this is; 0: none.
  [[nodiscard]] std::uint64_t over(const Place& leg) const;
  [[nodiscard]] std::uint64_t dialed_by(const CircuitEnd& end) const;
  /// The end of the circuit that has this leg, if it is open.
  [[nodiscard]] const CircuitEnd* end_of(const Circuit& circuit, int leg) const;
  /// Circuits that the node relays now.
  [[nodiscard]] std::size_t relayed(const Node& node) const;

  /// All concerned hear of it at once, however far the relay is; the connection over it breaks
  /// after `rest`.
  void end(std::uint64_t number, base::Duration rest = {});
  /// The same, asked for by an end or by the relay.
  void end_by(const CircuitEnd& end);
  /// Halves over this leg, which no relay has joined, are over.
  void drop_halves(const Place& leg);
  /// Delivered after everything that was said of its link.
  void tell_over(const CircuitEnd& end, std::uint64_t bytes = 0);

  void happen(const CircuitOver& over);
  void happen(const CircuitIdle& idle);

 private:
  struct Half {
    CircuitEnd end;
    Place leg;
  };

  Shared& shared_;
  Receiver& receiver_;
  std::map<std::uint64_t, Circuit> circuits_;
  std::vector<Half> opened_;  ///< ends for which CircuitEnded has not come
  std::uint64_t last_ = 0;
};

}  // namespace starling::sim
