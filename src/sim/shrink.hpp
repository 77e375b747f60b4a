// Makes a failing scenario smaller: drops faults that the failure does not need.
#pragma once

#include <functional>

#include "sim/language/scenario.hpp"

namespace starling::sim {

/// Removes entries of the timeline, halves first and then one by one, as long as the rest still
/// fails. Then removes settings of the run, peers and time of the entries that are left, peers of
/// the start and the rare branches. `fails(scenario)` holds at the start.
[[nodiscard]] Scenario shrink(Scenario scenario, const std::function<bool(const Scenario&)>& fails);

}  // namespace starling::sim
