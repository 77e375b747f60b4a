// The verdict on a run with real peers. From the laboratory's observations it measures everything
// that a scenario may expect, by the same rules as in the simulator.
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
  Measured measured;               ///< everything that was measured, expected or not
  std::vector<std::string> notes;  ///< for people: by how much, and when, a limit was missed
};

/// `folder`: of the log; replicas are read from there if the scenario expects something of their
/// distance. Errors (ErrorCode::data): a replica cannot be read.
[[nodiscard]] base::Result<Verdict> judge(const ObservationLog& log, const std::string& folder);

/// The verdict as JSON: the keys that scenarios/README.md describes for reports, "measured", {name:
/// value or null}, and "notes".
[[nodiscard]] std::string to_json(const Verdict& verdict);

}  // namespace starling::sim
