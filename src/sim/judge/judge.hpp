// The verdict on a run with real peers: of what the laboratory observed it measures what a scenario
// may expect, by the same rules as in the simulator.
#pragma once

#include <string>
#include <vector>

#include "base/result.hpp"
#include "sim/judge/observations.hpp"
#include "sim/judge/outcome.hpp"

namespace starling::sim {

struct Verdict {
  bool passed = false;
  std::vector<Outcome> expectations;
  Measured measured;               ///< all that was, expected or not
  std::vector<std::string> notes;  ///< for people: what a limit was missed by, and when
};

/// `folder`: of the log; replicas are read from there if the scenario expects something of their
/// distance. Errors (ErrorCode::data): one of them cannot be read.
[[nodiscard]] base::Result<Verdict> judge(const ObservationLog& log, const std::string& folder);

/// The verdict as JSON: what scenarios/README.md says of reports, and "measured", {name: value or
/// null}, and "notes".
[[nodiscard]] std::string to_json(const Verdict& verdict);

}  // namespace starling::sim
