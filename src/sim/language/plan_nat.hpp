// The routers in front of each peer of a plan: the [[network.nat]] entries by peer.
#pragma once

#include "base/result.hpp"
#include "sim/language/plan.hpp"

namespace starling::sim {

/// All peers of the plan have their numbers and regions. Peers of one entry share its router, or
/// have one each. Errors (ErrorCode::run_file): a peer that does not exist or is in two entries,
/// and a twin, which no router leads to.
[[nodiscard]] base::Status place_behind_routers(Plan& plan);

}  // namespace starling::sim
