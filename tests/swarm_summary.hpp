// Reads what `starling swarm` says at its end.
#pragma once

#include <string>

#include "report/summary.hpp"

namespace starling::testing {

[[nodiscard]] base::Result<report::SwarmSummary> read_swarm_summary(const std::string& text);

}  // namespace starling::testing
