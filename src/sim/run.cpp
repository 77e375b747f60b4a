#include "sim/run.hpp"

#include <algorithm>
#include <optional>

#include "base/simulated.hpp"
#include "sim/world.hpp"

namespace starling::sim {
namespace {

/// The final loss of the same run without its timeline.
base::Result<std::optional<double>> undisturbed_loss(const Plan& plan) {
  Scenario scenario = plan.scenario;
  scenario.timeline.clear();
  scenario.expect.clear();
  const auto calm = make_plan(std::move(scenario), plan.seed);
  if (!calm) return base::fail(calm.error());
  const auto task = make_task(calm->scenario);
  if (!task) return base::fail(task.error());
  base::simulated::begin(plan.seed, plan.scenario.sim.buggify);
  World world(*calm, **task, {});
  Checks checks(world);
  world.run();
  return checks.loss();
}

}  // namespace

base::Result<Report> run(const Plan& plan, const std::function<void(const std::string&)>& trace) {
  std::optional<double> calm;
  const auto compares = [](const Expectation& e) { return e.name == "loss_ratio_max"; };
  if (std::ranges::any_of(plan.scenario.expect, compares)) {
    auto loss = undisturbed_loss(plan);
    if (!loss) return base::fail(loss.error());
    calm = *loss;
  }
  const auto task = make_task(plan.scenario);
  if (!task) return base::fail(task.error());
  base::simulated::begin(plan.seed, plan.scenario.sim.buggify);
  World world(plan, **task, trace);
  Checks checks(world);
  world.run();
  checks.finish();
  Report report{.failure = checks.failure(),
                .failed_at = checks.failed_at(),
                .expectations = checks.outcomes(calm),
                .seed = plan.seed,
                .trace_hash = world.trace_hash(),
                .events = world.events(),
                .seconds = world.seconds(),
                .peer_seconds = world.peer_seconds(),
                .spectral_gap = checks.overlay_gap()};
  for (const PlannedEvent& event : plan.events) {
    if (event.at <= report.seconds) report.happened.push_back(event);
  }
  report.passed =
      report.failure.empty() &&
      std::ranges::all_of(report.expectations, [](const Outcome& o) { return o.passed; });
  return report;
}

}  // namespace starling::sim
