// Events for reach, and its actions: values, carried by the peer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/log_entry.hpp"
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
  bool asked = false;    ///< this peer dialed, or asked to be dialed
  std::string address;   ///< of the Want whose outcome this is; empty: none
};

struct LinkLost {
  base::LinkId link;
};

/// Membership wants to dial this member, or any peer at the address.
struct Want {
  std::string address;
  std::optional<base::PeerId> peer;
};

/// The outcome of a failed Dial; the outcome of an answered one is Core::answered().
struct DialFailed {
  std::string address;
  std::string text;
  bool own = false;       ///< this peer itself answered there
  bool no_route = false;  ///< nothing was sent: this machine has no way there
};

struct Received {
  base::LinkId link;
  std::variant<wire::DialBack, wire::DialedBack, wire::Introduce, wire::Circuit> message;
};

/// Once for each OpenCircuit and each Relay; for a Relay, with either of its links.
struct CircuitEnded {
  base::LinkId link;
  std::uint32_t number = 0;
  std::uint64_t bytes = 0;  ///< passed on by this peer
};

/// This machine has these addresses now; the earlier observations of others no longer count.
struct Moved {
  std::vector<std::string> addresses;
};

/// This peer is about to end: it ends its own circuits and starts no new ones; those that it relays
/// go on.
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

/// A link with `peer` inside those frames on the link with the relay that have the number. Ends in
/// a CircuitEnded; before that, a link may come up and break.
struct OpenCircuit {
  base::LinkId link;
  std::uint32_t number = 0;
  base::PeerId peer;
  bool dialer = false;  ///< this end begins
};

/// Pass on the frames for `number_a` on link `a` as `number_b` on link `b`, and back.
struct Relay {
  base::LinkId a;
  std::uint32_t number_a = 0;
  base::LinkId b;
  std::uint32_t number_b = 0;
};

/// Ends a Relay, named by either of its links, or an OpenCircuit.
struct EndCircuit {
  base::LinkId link;
  std::uint32_t number = 0;
};

/// This link is (or is no longer) a leg of a circuit, and must not be closed as unused.
struct Hold {
  base::LinkId link;
  bool on = false;
};

/// For this peer's own record.
struct Tell {
  wire::Reachability reach = wire::Reachability::unknown;
  std::string outer;  ///< reachable: where; otherwise empty
};

/// The outcome of a Want that did not lead to a link.
struct Failed {
  std::string address;
  std::string text;
  bool own = false;
  bool no_route = false;
};

using Action =
    std::variant<Dial, Send, OpenCircuit, Relay, EndCircuit, Hold, Tell, Failed, base::LogEntry>;
using Outbox = std::vector<Action>;

}  // namespace starling::reach
