// What peers must agree on: their replicas, and who trains on what.
#pragma once

#include "sim/checks/alarm.hpp"

namespace starling::sim {

/// A run that ended undisturbed leaves all with the same replica, and a ring to the bit.
/// `any_failed`: a peer ended with an error.
void check_end_of_run(const World& world, bool any_failed, Alarm& alarm);
/// Replicas of a quadratic are near each other and their optimum. Long after the faults.
void check_replicas(const World& world, Alarm& alarm);
/// Each shard has one owner. Long after the faults.
void check_shards(const World& world, Alarm& alarm);

}  // namespace starling::sim
