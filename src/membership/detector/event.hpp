// Events and actions of the detector.
#pragma once

#include <variant>
#include <vector>

#include "base/log_entry.hpp"
#include "base/time.hpp"
#include "membership/between.hpp"
#include "membership/event.hpp"

namespace starling::membership {

/// Timers ran so much too late: this peer is overloaded.
struct RanLate {
  base::Duration late{0};
};

/// Of Received only Gossip, Heartbeat and Reconcile say more than that the other end lives.
using DetectorEvent = std::variant<LinkMet, RoleSet, LinkEnded, Accuse, RanLate, StoodStill,
                                   Received, Heard, SpeedMeasured, Moved, Leave>;
using DetectorAction =
    std::variant<Send, MembersChanged, base::LogEntry, Admitted, EndLink, MemberBack, MemberGone>;
using DetectorOutbox = std::vector<DetectorAction>;

}  // namespace starling::membership
