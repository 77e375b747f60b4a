// One run of a scenario in the simulator, from plan to report.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "sim/conducts.hpp"
#include "sim/judge/outcome.hpp"
#include "sim/language/plan.hpp"

namespace starling::sim {

struct Report {
  bool passed = false;
  /// The invariant that broke; empty: none did. "undisturbed: ...": it broke in the run without
  /// faults that the loss is compared with.
  std::string failure;
  double failed_at = 0;
  std::vector<Outcome> expectations;
  std::vector<PlannedEvent> happened;  ///< of the plan, until the end
  std::uint64_t seed = 0;
  std::uint64_t trace_hash = 0;
  std::uint64_t events = 0;
  double seconds = 0;                  ///< virtual
  double peer_seconds = 0;             ///< virtual, over all peers
  std::optional<double> spectral_gap;  ///< of the overlay once all had joined
  /// The fraction of the links between peers for which it was known whether their exchanges add up.
  std::optional<double> ledger_coverage;
};

/// Runs the plan. `trace` takes a line for every event; may be empty. `make_conduct` plays hostile
/// peers. Errors: those of the run file and the data set, and hostile peers that nobody plays.
/// Faults in the simulated world are in the report.
[[nodiscard]] base::Result<Report> run(const Plan& plan,
                                       const std::function<void(const std::string&)>& trace = {},
                                       const MakeConduct& make_conduct = {});

/// The kind of failure, to distinguish reports: the invariant without its numbers and names, or the
/// expectation that failed first and whether it had a value. Empty: it passed.
[[nodiscard]] std::string kind_of_failure(const Report& report);

/// The report as JSON, as described in scenarios/README.md.
[[nodiscard]] std::string to_json(const Report& report);

}  // namespace starling::sim
