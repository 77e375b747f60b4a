// Events and actions of a peer's core: values only.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "base/log_entry.hpp"
#include "base/peer_id.hpp"
#include "base/result.hpp"
#include "base/strong.hpp"
#include "membership/event.hpp"
#include "peer/jobs.hpp"
#include "reach/event.hpp"
#include "wire/messages.hpp"

namespace starling::peer {

// --- events ---

/// The peer may look for others and train.
struct Start {};

/// A link is up and its other end has proved that it is `peer`.
struct LinkUp {
  base::LinkId link;
  base::PeerId peer;
  bool dialed = false;  ///< by this peer
  std::string address;
  /// The other end's address as seen here, "ip:port"; empty: `address`, or of a circuit none.
  std::string observed{};
  base::LinkId via{};  ///< over a circuit: the link with the relay
};

/// The link is gone; once for every LinkUp.
struct LinkDown {
  base::LinkId link;
  membership::LossReason reason{};
  std::string text;
};

struct DialFailed {
  std::string address;
  std::string text;
  bool own = false;          ///< this peer itself answered there
  bool no_route = false;     ///< nobody was asked: this machine has no way there
  bool turned_away = false;  ///< who answered there and this peer have not the same secret
};

/// Heard on the local network.
using membership::Found;
/// The machine has other addresses now.
using membership::Moved;

struct Received {
  base::LinkId link;
  wire::Message message;
  base::Duration took{};  ///< from its first byte to its last; 0: less than could be told
};

/// A frame that takes its time is under way on a link: so many of its bytes came since the last
/// such event, at least kArrivingMin, in at least kArrivingEvery.
struct Arriving {
  base::LinkId link;
  std::uint8_t type = 0;  ///< of the frame, as wire::FrameType has it or another
  std::size_t bytes = 0;
};
inline constexpr std::size_t kArrivingMin = 1024;
inline constexpr base::Duration kArrivingEvery = std::chrono::milliseconds(100);

/// A whole frame arrived, and its message cannot be read: the other end breaks the protocol.
struct Unreadable {
  base::LinkId link;
  std::string text;  ///< what is wrong with it
};

/// Once for each OpenCircuit and each Relay, by either of its links. Where a link came up over the
/// circuit, its LinkDown comes first.
using reach::CircuitEnded;

/// Save, say goodbye and end.
struct Leave {};

/// Save now and go on.
struct Checkpoint {};

using Event = std::variant<Start, LinkUp, LinkDown, DialFailed, Found, Moved, Received, Outcome,
                           Leave, Checkpoint, Arriving, Unreadable, CircuitEnded>;

// --- actions ---

using membership::Send;
using reach::Dial;
using reach::DialKind;
/// These end in a CircuitEnded. The transport keeps to `relay.limit`, reach to `relay.circuits`.
using reach::EndCircuit;
using reach::OpenCircuit;
using reach::Relay;

/// Frames of full size may come over this link from now on.
struct Accept {
  base::LinkId link;
};

/// Sends what is queued and closes the link.
struct Close {
  base::LinkId link;
};

struct Run {
  Job job;
};

/// A row for the metrics: the status at this moment.
struct Report {
  bool evaluated = false;  ///< it has an evaluation that no earlier row had
};

enum class EndReason : std::uint8_t { done, left, failed };

/// Where others are, for this peer's next start (Resume::addresses): in place of what it was told
/// before. At most membership::kRememberedMax, each of at most wire::kAddressMax bytes.
struct Remember {
  std::vector<std::string> addresses;
};

/// The swarm that this peer wants to join trains another run; `canonical` is that run's.
struct Refused {
  std::string canonical;
  std::string address;
};

/// The last action: nothing is expected any more.
struct Finished {
  EndReason reason = EndReason::done;
  base::Error error;  ///< failed; else without a text, but where the model could not be saved
};

using Action = std::variant<Dial, Send, Accept, Close, Run, base::LogEntry, Report, Remember,
                            Refused, Finished, OpenCircuit, Relay, EndCircuit>;
using Outbox = std::vector<Action>;

}  // namespace starling::peer
