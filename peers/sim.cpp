// starling sim: runs a scenario in the simulator.
#include <cstdio>

#include "base/result.hpp"
#include "commands.hpp"
#include "sim/plan.hpp"
#include "sim/scenario.hpp"

namespace starling::peers {
namespace {

int complain(const base::Error& error) {
  std::fprintf(stderr, "starling sim: %s\n", error.text.c_str());
  return base::exit_code(error.code);
}

}  // namespace

int run_sim(const SimOptions& options) {
  auto scenario = sim::read_scenario(options.scenario);
  if (!scenario) return complain(scenario.error());
  const auto plan = sim::make_plan(std::move(*scenario), options.seed);
  if (!plan) return complain(plan.error());
  std::puts(sim::to_json(*plan).c_str());
  return 0;
}

}  // namespace starling::peers
