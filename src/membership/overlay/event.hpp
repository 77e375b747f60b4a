// Events and actions of the overlay.
#pragma once

#include <variant>
#include <vector>

#include "base/log_entry.hpp"
#include "membership/between.hpp"
#include "membership/event.hpp"

namespace starling::membership {

/// Of Received only Neighbour and Bye mean something.
using OverlayEvent = std::variant<LinkReady, LinkLost, DialFailed, Found, Received, Hold, Stay,
                                  Leave, Admitted, EndLink, MemberBack, MemberGone, StoodStill>;
using OverlayAction = std::variant<Dial, Send, Close, NeighbourUp, NeighbourDown, base::LogEntry,
                                   LinkMet, RoleSet, LinkEnded, Accuse>;
using OverlayOutbox = std::vector<OverlayAction>;

}  // namespace starling::membership
