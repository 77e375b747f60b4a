// Which peers a selector of a scenario means.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/rng.hpp"
#include "sim/language/plan.hpp"

namespace starling::sim {

using Numbers = std::vector<std::uint32_t>;

/// The random draws of an entry, so that it strikes the same whatever else is in the scenario.
struct Draws {
  base::Rng rng;
  std::uint32_t next = 0;  ///< index for those taken in turn
};

/// Chooses from rising candidates, numbers of `peers`. The result rises.
[[nodiscard]] Numbers choose(const Selector& selector, const Numbers& candidates,
                             const std::vector<PlannedPeer>& peers, Draws& draws);
/// Those of a region.
[[nodiscard]] Numbers in_region(Numbers candidates, const std::string& region,
                                const std::vector<PlannedPeer>& peers);

}  // namespace starling::sim
