// Circuits: two members send each other bytes through a third one, inside frames on their links
// with it. Each end has a carrier; the relay cannot read the bytes that it passes on.
//
// A frame of type `circuit` has no metadata. Its payload, little-endian:
//
//   offset  size  field
//   0       4     number of the circuit on this link; the relay replaces it
//   4       4     bytes of the other end that the sender has taken, modulo 2^32
//   8       4     1: the circuit has ended; otherwise 0
//   12      ..    bytes, at most kCircuitPieceMax
//
// An end sends at most kCircuitWindow that the other end has not taken, so at most that much waits
// at a relay each way, for links or for its limit.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/bytes.hpp"
#include "base/strong.hpp"
#include "base/time.hpp"
#include "io/carrier.hpp"
#include "reach/limits.hpp"

namespace starling::io {

inline constexpr std::size_t kCircuitHeaderSize = 12;
inline constexpr std::size_t kCircuitPieceMax = 16UL * 1024;
inline constexpr std::size_t kCircuitWindow = 256UL * 1024;
/// A piece with no or few bytes counts as this much at a relay.
inline constexpr std::size_t kCircuitPieceCost = 64;
/// A relay ends a circuit on which nothing has come for this long.
using reach::kCircuitIdle;

/// The links under the circuits, provided by a transport.
class CircuitLinks {
 public:
  CircuitLinks() = default;
  CircuitLinks(const CircuitLinks&) = delete;
  CircuitLinks& operator=(const CircuitLinks&) = delete;
  virtual ~CircuitLinks() = default;

  /// False: there is no such link, or it has no room for the frame.
  virtual bool send_circuit_frame(base::LinkId link, base::Bytes frame) = 0;
  /// Bytes that wait to be sent on a link; nothing if there is no such link.
  [[nodiscard]] virtual std::optional<std::size_t> waiting_on(base::LinkId link) const = 0;
};

/// Not thread-safe; part of a transport.
class Circuits {
 public:
  struct Ended {
    base::LinkId link;
    std::uint32_t number = 0;
    std::uint64_t bytes = 0;  ///< passed on by this peer
  };

  /// `limit`: bytes a second that this peer passes on for others, all together. `links` must
  /// outlive it.
  Circuits(CircuitLinks& links, std::uint64_t limit) : links_(links), limit_(limit) {}
  Circuits(const Circuits&) = delete;
  Circuits& operator=(const Circuits&) = delete;

  /// This end of a circuit; null if the link already has one with that number. Must not outlive
  /// this.
  [[nodiscard]] std::unique_ptr<Carrier> open(base::LinkId link, std::uint32_t number);
  /// Reports a circuit that cannot be opened as ended.
  void refuse(base::LinkId link, std::uint32_t number);
  /// Passes on from now on. An Ended follows if a leg is already in use.
  void relay(base::LinkId a, std::uint32_t number_a, base::LinkId b, std::uint32_t number_b,
             base::Time now);
  /// Ends a circuit that this peer relays or is an end of.
  void end(base::LinkId link, std::uint32_t number);

  /// A frame of type `circuit` came on a link. False: the other end breaks the rules.
  [[nodiscard]] bool on_frame(base::LinkId link, base::ByteView payload, base::Time now);
  /// Ends all circuits over this link.
  void link_gone(base::LinkId link);

  /// Passes on as much as allowed. True if there is more to do at once.
  [[nodiscard]] bool pump(base::Time now);
  /// When to call pump(), if nothing happens before.
  [[nodiscard]] base::Time deadline() const noexcept { return deadline_; }
  /// Those that ended since the last call.
  [[nodiscard]] std::vector<Ended> take_ended() { return std::exchange(ended_, {}); }
  [[nodiscard]] std::size_t relayed() const noexcept { return relays_.size(); }

 private:
  using Leg = std::pair<base::LinkId, std::uint32_t>;
  class End;
  struct Relay {
    std::array<Leg, 2> legs;
    /// From leg i to the other one.
    std::array<std::deque<base::Bytes>, 2> waiting;
    std::array<std::size_t, 2> cost{};
    std::uint64_t bytes = 0;
    base::Time heard_at{};
  };

  void forget(const Leg& leg);
  void say_end(const Leg& leg);
  void end_relay(std::size_t number, std::optional<std::size_t> silent_leg);
  [[nodiscard]] bool pass_on(Relay& relay, std::size_t from, base::Time now);
  void earn(base::Time now);
  [[nodiscard]] std::optional<std::size_t> relay_of(const Leg& leg, std::size_t& from) const;

  CircuitLinks& links_;
  std::uint64_t limit_;
  double allowance_ = 0;  ///< bytes that may be passed on now
  base::Time earned_at_{};
  std::map<Leg, End*> ends_;
  std::vector<Relay> relays_;
  std::size_t first_ = 0;  ///< whose turn it is, so that all get equal shares
  std::vector<Ended> ended_;
  base::Time deadline_ = base::Time::max();
};

}  // namespace starling::io
