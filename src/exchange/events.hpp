// The events and actions of the protocol, as values; its jobs are in jobs.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "base/log_entry.hpp"
#include "base/peer_id.hpp"
#include "base/result.hpp"
#include "base/strong.hpp"
#include "base/time.hpp"
#include "exchange/jobs.hpp"
#include "exchange/left_out.hpp"
#include "wire/messages.hpp"

namespace starling::exchange {

// --- events, beside the outcomes of jobs ---

struct NeighbourUp {
  base::PeerId peer;
};
struct NeighbourDown {
  base::PeerId peer;
  bool for_good = false;  ///< it left or misbehaved; else the link is broken and may come back
  bool done = false;      ///< it left since it has ended its run
};
struct Received {
  base::PeerId peer;
  std::variant<wire::LinkOpen, wire::Delta, wire::Keyframe, wire::Settle> message;
  base::Duration took{};  ///< from its first byte to its last; 0: too short to be measured
};
/// More bytes came of a keyframe that is not complete yet.
struct KeyframeArriving {
  base::PeerId peer;
  std::size_t bytes = 0;
};
/// After each own step, and when the swarm's progress is known better.
struct Progressed {
  base::StepNumber step;      ///< number of own steps
  std::uint64_t samples = 0;  ///< own samples
  double progress = 0.0;      ///< the swarm's progress, 0 to 1
  base::Duration took{};      ///< time that the step took to compute; 0: none was made
  std::int8_t weight = 0;     ///< as wire::Delta::weight
};
/// A neighbour's samples, as far as others vouch for them. Where peers weigh by their speed.
struct Vouched {
  base::PeerId peer;
  std::uint64_t samples = 0;
};
/// Whether members are known of that may become neighbours; until it is told, there are none.
struct Company {
  bool expected = false;
};
enum class Phase : std::uint8_t { training, settling, done };

using Event =
    std::variant<NeighbourUp, NeighbourDown, Received, Progressed, Vouched, Company, Phase, Encoded,
                 Committed, KeyframeMade, Opened, Audited, KeyframeArriving>;

/// An outcome as the event it is.
[[nodiscard]] Event event_of(Outcome outcome);

// --- actions ---

struct Send {
  base::PeerId peer;
  wire::Message message;
};
struct Run {
  Job job;
};
/// The link is to be closed and its peer reported; the core has forgotten it already.
struct Misbehaved {
  base::PeerId peer;
  std::string text;
  bool is_judged = false;  ///< its replica is bad, and it has kept to the protocol otherwise
};
/// There is no room for a link with this peer, which is not to blame: the link is to be closed, and
/// none to be opened for a while. The core has forgotten it already.
struct NoRoom {
  base::PeerId peer;
  std::string text;
};
/// Comes once, in Phase::settling: every link partner agrees, and there is one if there may be; or
/// the others are late, or the time is up.
struct Settled {
  bool unsettled = false;  ///< there are others, and this peer has agreed with none
  /// Neighbours that have not agreed. At most kLinksMax + kGraceLinksMax.
  std::vector<LeftOut> left_out{};
};
/// The own replica is not finite or lost, or what this end made is wrong: the run cannot go on.
struct Failed {
  base::Error error;
};

using Action = std::variant<Send, Run, Misbehaved, NoRoom, Settled, base::LogEntry, Failed>;
using Outbox = std::vector<Action>;

}  // namespace starling::exchange
