// Scenarios drawn from a seed. Each seed first draws which kinds of faults there are at all (swarm
// testing: Groce et al., ISSTA 2012), so that rare mixtures occur and one kind does not hide
// another.
#pragma once

#include <cstdint>

#include "sim/language/scenario.hpp"

namespace starling::sim {

/// The scenario of a seed: a few peers, some minutes with faults, then time to recover.
[[nodiscard]] Scenario random_scenario(std::uint64_t seed);

/// The same with ten peers at first, of different speeds, of which one attacks the others. Only for
/// programs that play hostile peers.
[[nodiscard]] Scenario random_hostile_scenario(std::uint64_t seed);

}  // namespace starling::sim
