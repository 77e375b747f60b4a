// What reach hears and what it asks for: values, carried by the peer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/notice.hpp"
#include "base/peer_id.hpp"
#include "base/strong.hpp"
#include "wire/messages.hpp"

namespace starling::reach {

// --- events ---

/// A link on which both ends passed the Hello.
struct LinkReady {
  base::LinkId link;
  base::PeerId peer;
  std::string observed;  ///< the other end's address as seen here
  base::LinkId via;      ///< over a circuit: the link with the relay
  bool asked = false;    ///< by this peer: dialed, or asked to be dialed
  std::string address;   ///< of the Want whose outcome it is; empty: of none
};

struct LinkLost {
  base::LinkId link;
};

/// Membership wants to dial: this member, or whoever is at the address.
struct Want {
  std::string address;
  std::optional<base::PeerId> peer;
};

/// The outcome of a Dial; that of one that was answered is Core::answered().
struct DialFailed {
  std::string address;
  std::string text;
  bool own = false;       ///< this peer itself answered there
  bool no_route = false;  ///< nobody was asked: this machine has no way there
};

struct Received {
  base::LinkId link;
  std::variant<wire::DialBack, wire::DialedBack, wire::Introduce, wire::Circuit> message;
};

/// Once for each OpenCircuit and each Relay; there the link is either.
struct CircuitEnded {
  base::LinkId link;
  std::uint32_t number = 0;
  std::uint64_t bytes = 0;  ///< that this peer has passed on
};

/// This machine has these addresses now; what others saw of it before says nothing any more.
struct Moved {
  std::vector<std::string> addresses;
};

/// This peer is about to end: it ends its own circuits and starts none, but those that it relays go
/// on.
struct Retire {};

using Event =
    std::variant<LinkReady, LinkLost, Want, DialFailed, Received, CircuitEnded, Moved, Retire>;

// --- actions ---

enum class DialKind : std::uint8_t {
  direct,
  punch,  ///< from the listening port: the other end dials at the same moment
};

/// Ends in exactly one link that this peer dialed (Core::answered) or DialFailed.
struct Dial {
  std::string address;
  std::optional<base::PeerId> peer;
  DialKind kind = DialKind::direct;
};

struct Send {
  base::LinkId link;
  wire::Message message;
};

/// A link with `peer` inside frames on the link with the relay, of which the number says which are
/// meant. Ends in a CircuitEnded, before which a link may come up and break.
struct OpenCircuit {
  base::LinkId link;
  std::uint32_t number = 0;
  base::PeerId peer;
  bool dialer = false;  ///< this end begins
};

/// Pass on what comes for `number_a` on link `a` as `number_b` on link `b`, and back.
struct Relay {
  base::LinkId a;
  std::uint32_t number_a = 0;
  base::LinkId b;
  std::uint32_t number_b = 0;
};

/// Of a Relay, by either of its links, or of an OpenCircuit.
struct EndCircuit {
  base::LinkId link;
  std::uint32_t number = 0;
};

/// This link is a leg of a circuit, or no longer: it is not to be closed as unused.
struct Hold {
  base::LinkId link;
  bool on = false;
};

/// For the own record.
struct Tell {
  wire::Reachability reach = wire::Reachability::unknown;
  std::string outer;  ///< reachable: where, else empty
};

/// The outcome of a Want, if no link is.
struct Failed {
  std::string address;
  std::string text;
  bool own = false;
  bool no_route = false;
};

using Action =
    std::variant<Dial, Send, OpenCircuit, Relay, EndCircuit, Hold, Tell, Failed, base::Notice>;
using Outbox = std::vector<Action>;

}  // namespace starling::reach
