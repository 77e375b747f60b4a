// Which peers of a plan are hostile.
#pragma once

#include "base/result.hpp"
#include "sim/language/plan.hpp"

namespace starling::sim {

/// Gives the peers of each [[hostile]] entry its attack: of all that have a replica, joiners too,
/// and that no entry before has.
/// Error (ErrorCode::run_file): no such peer, or one that an entry before has.
[[nodiscard]] base::Status cast_hostiles(Plan& plan);

}  // namespace starling::sim
