// Events and actions of membership: values, carried by the peer.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/log_entry.hpp"
#include "base/peer_id.hpp"
#include "base/strong.hpp"
#include "wire/messages.hpp"

namespace starling::membership {

/// Why a link or a neighbour relation ended.
enum class LossReason {
  reset,      ///< the transport broke
  silent,     ///< nothing was heard for too long
  left,       ///< one end left the swarm
  done,       ///< the other end has done its part of the run, and left
  banned,     ///< the other end broke the protocol
  closed,     ///< the other end closed it on purpose, or no longer wants to be a neighbour
  duplicate,  ///< another link to the same peer takes over
  replaced,   ///< another neighbour took its place: this end had more than it seeks
  no_room,    ///< this end lacks the memory for a link with it
  relay,      ///< the member that relayed it is gone, or relays it no more
};

[[nodiscard]] const char* to_string(LossReason reason) noexcept;
/// Whether who was lost does not come back, or not within a ban.
[[nodiscard]] constexpr bool is_for_good(LossReason reason) noexcept {
  using enum LossReason;
  return reason == left || reason == done || reason == banned || reason == no_room;
}

// --- events ---

/// A link on which both ends passed the Hello.
struct LinkReady {
  base::LinkId link;
  wire::MemberRecord other;
  bool dialed = false;   ///< or this end asked to be dialed: the link is its own
  std::string address;   ///< of the Dial whose outcome it is; may be empty
  bool relayed = false;  ///< it is over a circuit
};

/// A ready link is gone. Not needed, but harmless, for a link that a Close action named.
struct LinkLost {
  base::LinkId link;
  LossReason reason = LossReason::reset;
  std::string text;
};

/// A Dial ended without a LinkReady, within kDialTimeout.
struct DialFailed {
  std::string address;
  std::string text;
  bool own = false;       ///< this peer itself answered there
  bool no_route = false;  ///< nobody was asked: this machine has no way there
};

/// A peer may be at this address, and claims to be `peer`: heard on the local network, unproved.
struct Found {
  base::PeerId peer;
  std::string address;
};

/// A Neighbour, Gossip, Heartbeat, Reconcile or Bye arrived; other messages count as Heard.
struct Received {
  base::LinkId link;
  wire::Message message;
};

/// Anything else arrived: the other end lives. Cheap, for every data frame, and for parts of those
/// that take long.
struct Heard {
  base::LinkId link;
  bool part = false;  ///< of a frame that is not complete: heartbeats behind it are late
};

/// How fast this peer trains, and how much it counts in averages; told to all with the own record.
struct SpeedMeasured {
  float speed = 0;                       ///< samples a second, for its share of the data
  std::int8_t weight = wire::kNoWeight;  ///< as wire::MemberRecord::weight
};

/// Where others reach this peer from now on: 1 to wire::kAddressesMax. Told with the own record.
struct Moved {
  std::vector<std::string> addresses;
  wire::Reachability reach = wire::Reachability::unknown;
};

/// Something else needs this link from now on, or no longer: it is not closed as unused.
struct Hold {
  base::LinkId link;
  bool on = false;
};

/// The run is over here, and the links still serve others: no more are sought.
struct Stay {};

/// Say goodbye: the own record becomes `left`, all links are closed, nothing more is done.
struct Leave {
  bool done = false;  ///< has done its part of the run: nobody waits for anything of it
};

using Event = std::variant<LinkReady, LinkLost, DialFailed, Found, Received, Heard, SpeedMeasured,
                           Moved, Hold, Stay, Leave>;

// --- actions ---

/// Connect to "host:port", or come to a link with this member by another way; that alone where the
/// address is no "host:port". Ends in exactly one
/// LinkReady (dialed, same address) or DialFailed.
struct Dial {
  std::string address;
  std::optional<base::PeerId> peer{};  ///< nothing: whoever is there
};

struct Send {
  base::LinkId link;
  wire::Message message;
};

/// Send a Bye of this reason and close. Membership has forgotten the link already.
struct Close {
  base::LinkId link;
  wire::ByeReason reason = wire::ByeReason::none;
};

/// The two ends of this link are neighbours from now on, and exchange: neither is a relay.
struct NeighbourUp {
  base::PeerId peer;
  base::LinkId link;
};

/// They no longer are. Always precedes another NeighbourUp for the same peer.
struct NeighbourDown {
  base::PeerId peer;
  base::LinkId link;
  LossReason reason = LossReason::reset;
};

/// The set of alive members or a speed changed: data shards move.
struct MembersChanged {};

using Action =
    std::variant<Dial, Send, Close, NeighbourUp, NeighbourDown, MembersChanged, base::LogEntry>;
using Outbox = std::vector<Action>;

}  // namespace starling::membership
