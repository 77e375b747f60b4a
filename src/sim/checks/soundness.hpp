// What must hold of a peer taken by itself, whatever goes on around it.
#pragma once

#include "sim/checks/alarm.hpp"

namespace starling::sim {

/// What can grow is at its limit at most.
void check_bounds(const Node& node, Alarm& alarm);
/// Nothing waits for longer than it may.
void check_timers(const World& world, const Node& node, Alarm& alarm);
/// Jobs, frames and events do not pile up. Once nothing disturbs the peer any more.
void check_queues(const World& world, const Node& node, Alarm& alarm);
/// Where a peer may end with an error, its replica may diverge before.
void check_finite(const World& world, const Node& node, Alarm& alarm);
/// Buffers are as many as there should be, and in their ranges.
void check_buffers(const World& world, const Node& node, Alarm& alarm);

}  // namespace starling::sim
