// starling-sim: the simulator with its switches, for tests of the simulator and of the cores. It
// takes the options of `starling sim`, and:
//
//     starling-sim bugs                  lists the bugs that can be planted
//     starling-sim SCENARIO --bug NAME   plants one
#include <cstdint>
#include <cstdio>
#include <map>
#include <string>
#include <string_view>

#include "base/parse_number.hpp"
#include "base/simulated.hpp"
#include "commands.hpp"
#include "hostile/attacker.hpp"

namespace {

using namespace starling;
using base::simulated::kBugs;

constexpr int kUsageExit = 2;

int usage() {
  std::fputs(
      "usage: starling-sim SCENARIO|random|random-hostile|bugs [--seed N] [--seeds A..B]\n"
      "                    [--json FILE] [--set KEY=VALUE]... [--regressions FOLDER] [--plan]\n"
      "                    [--trace] [--bug NAME]\n"
      "       starling-sim --judge LOG [--json FILE]\n",
      stderr);
  return kUsageExit;
}

bool plant(const std::string& name) {
  for (const auto& bug : kBugs) {
    if (bug.name != name) continue;
    base::simulated::switches.bug = bug.bug;
    return true;
  }
  return false;
}

}  // namespace

int main(int argc, char** argv) {
  peers::SimOptions options;
  options.program = "starling-sim";
  options.make_conduct = hostile::make_attacker;
  std::string seed;
  std::string bug;
  const std::map<std::string_view, std::string*> values{
      {"--seed", &seed},           {"--seeds", &options.seeds},
      {"--json", &options.json},   {"--regressions", &options.regressions},
      {"--judge", &options.judge}, {"--bug", &bug}};
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--set") {
      if (++i == argc) return usage();
      options.set.emplace_back(argv[i]);
    } else if (const auto value = values.find(word); value != values.end()) {
      if (++i == argc) return usage();
      *value->second = argv[i];
    } else if (word == "--plan") {
      options.plan = true;
    } else if (word == "--trace") {
      options.trace = true;
    } else if (word.starts_with("-") || !options.scenario.empty()) {
      return usage();
    } else {
      options.scenario = word;
    }
  }
  if (options.scenario == "bugs") {
    for (const auto& known : kBugs) std::printf("%s\n", std::string(known.name).c_str());
    return 0;
  }
  if (!bug.empty() && !plant(bug)) return usage();
  if (!bug.empty()) options.more = " --bug " + bug;
  if (!seed.empty()) {
    options.seed = base::parse_number<std::uint64_t>(seed);
    if (!options.seed) return usage();
  }
  return peers::run_sim(options);
}
