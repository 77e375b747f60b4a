#include "sim/run.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/core.h>

#include "base/simulated.hpp"
#include "sim/checks.hpp"
#include "sim/world.hpp"

namespace starling::sim {
namespace {

/// The result of a run that others are compared with.
struct Reference {
  std::optional<double> loss;  ///< final
  std::string failure;
  double failed_at = 0;
};

/// Rejects settings whose effect only real packets show, and hostile peers that nobody plays.
base::Status check_possible(const Scenario& scenario, const MakeConduct& make_conduct) {
  if (!scenario.hostiles.empty() && !make_conduct) {
    return base::fail(base::ErrorCode::run_file,
                      "{}:{}: hostile: only the test program starling-sim plays hostile peers",
                      scenario.file, scenario.hostiles.front().line);
  }
  for (const NatEntry& entry : scenario.nats) {
    const bool hole = entry.settings.mtu_black_hole > 0;
    if (!hole && entry.settings.proxy == Proxy::none) continue;
    return base::fail(base::ErrorCode::run_file,
                      "{}:{}: network.nat: '{}' works only with real peers: scenarios/run {}",
                      scenario.file, entry.line, hole ? "mtu_black_hole" : "proxy", scenario.file);
  }
  return {};
}

/// The same run without its timeline, of honest peers.
base::Result<Reference> run_undisturbed(const Plan& plan) {
  Scenario scenario = plan.scenario;
  scenario.timeline.clear();
  scenario.hostiles.clear();
  scenario.expect.clear();
  const auto calm = make_plan(std::move(scenario), plan.seed);
  if (!calm) return base::fail(calm.error());
  const auto task = make_task(calm->scenario);
  if (!task) return base::fail(task.error());
  base::simulated::begin(plan.seed, plan.scenario.sim.buggify);
  World world(*calm, **task, {});
  Checks checks(world);
  world.run();
  checks.finish();
  Reference result{.loss = checks.findings().measured[Measure::loss_max],
                   .failure = {},
                   .failed_at = checks.failed_at()};
  if (!checks.failure().empty()) result.failure = "undisturbed: " + checks.failure();
  return result;
}

}  // namespace

base::Result<Report> run(const Plan& plan, const std::function<void(const std::string&)>& trace,
                         const MakeConduct& make_conduct) {
  if (auto possible = check_possible(plan.scenario, make_conduct); !possible) {
    return base::fail(possible.error());
  }
  Reference reference;
  if (expects(plan.scenario, Measure::loss_ratio_max)) {
    auto undisturbed = run_undisturbed(plan);
    if (!undisturbed) return base::fail(undisturbed.error());
    reference = std::move(*undisturbed);
  }
  const auto task = make_task(plan.scenario);
  if (!task) return base::fail(task.error());
  base::simulated::begin(plan.seed, plan.scenario.sim.buggify);
  World world(plan, **task, trace, make_conduct);
  Checks checks(world);
  world.run();
  checks.finish();
  const bool broken = !checks.failure().empty();
  Measured measured = checks.findings().measured;
  measured[Measure::loss_ratio_max] = loss_ratio(measured[Measure::loss_max], reference.loss);
  Report report{.failure = broken ? checks.failure() : reference.failure,
                .failed_at = broken ? checks.failed_at() : reference.failed_at,
                .expectations = outcomes_of(plan.scenario, measured),
                .seed = plan.seed,
                .trace_hash = world.trace().hash(),
                .events = world.trace().events(),
                .seconds = world.seconds(),
                .peer_seconds = world.peer_seconds(),
                .spectral_gap = measured[Measure::spectral_gap_min],
                .ledger_coverage = checks.findings().ledger_coverage};
  for (const PlannedEvent& event : plan.events) {
    if (event.at <= report.seconds) report.happened.push_back(event);
  }
  report.passed = report.failure.empty() && all_passed(report.expectations);
  return report;
}

std::string kind_of_failure(const Report& report) {
  if (report.failure.empty()) {
    const auto failed = std::ranges::find(report.expectations, false, &Outcome::passed);
    if (failed == report.expectations.end()) return "";
    return fmt::format("{} {}", failed->name, failed->value ? "is not met" : "has no value");
  }
  // A word with a digit is a number, a peer, a key or an address.
  std::string kind;
  for (std::size_t at = 0; at < report.failure.size();) {
    const std::size_t end = std::min(report.failure.find(' ', at), report.failure.size());
    const std::string word = report.failure.substr(at, end - at);
    const bool named = std::ranges::any_of(word, [](char c) { return c >= '0' && c <= '9'; }) ||
                       word == "nan" || word == "-nan" || word == "inf" || word == "-inf";
    kind += (kind.empty() ? "" : " ") + (named ? "#" : word);
    at = end + 1;
  }
  return kind;
}

}  // namespace starling::sim
