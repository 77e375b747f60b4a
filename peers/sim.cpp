// starling sim: runs a scenario in the simulator.
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.hpp"
#include "base/parse_number.hpp"
#include "base/result.hpp"
#include "base/simulated.hpp"
#include "commands.hpp"
#include "complain.hpp"
#include "runfile/invite.hpp"
#include "runfile/run_file.hpp"
#include "sim/judge/judge.hpp"
#include "sim/judge/observations.hpp"
#include "sim/language/plan.hpp"
#include "sim/language/scenario.hpp"
#include "sim/random_scenario.hpp"
#include "sim/run.hpp"
#include "sim/shrink.hpp"
#include "system.hpp"

namespace starling::peers {
namespace {

/// Instead of a file: the scenario is drawn from the seed.
constexpr const char* kRandom = "random";
constexpr const char* kRandomHostile = "random-hostile";
constexpr std::uint64_t kSeedsMax = 100'000'000;
/// With this many peers or more, the simulator waits mostly for memory.
constexpr std::size_t kManyPeers = 256;
/// One of this many seeds runs twice, and must do the same.
constexpr std::uint64_t kTwiceEvery = 100;

/// An assertion ends the process: the text for the signal handler is prepared before each run.
char last_words[4096];

/// The command that runs a seed again and prints its events.
std::string again(const SimOptions& options, std::uint64_t seed) {
  std::string command = fmt::format("{} {} --seed {} --trace{}", options.program,
                                    runfile::shell_word(options.scenario), seed, options.more);
  for (const std::string& key : options.set) command += " --set " + runfile::shell_word(key);
  return command;
}

void prepare_abort(const SimOptions& options, std::uint64_t seed) {
  const auto end = fmt::format_to_n(last_words, sizeof last_words - 1,
                                    "seed {} broke an assertion; again, with what happened: {}\n",
                                    seed, again(options, seed));
  *end.out = '\0';
  std::signal(SIGABRT, [](int) {
    static_cast<void>(!write(STDERR_FILENO, last_words, std::strlen(last_words)));
    std::signal(SIGABRT, SIG_DFL);
  });
}

double core_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

/// Writes JSON where --json says.
base::Status write_json(const std::string& where, const std::string& json) {
  if (where == "-") {
    std::puts(json.c_str());
    return {};
  }
  return base::replace_file(where, json, base::Durability::unsynced);
}

void print(const std::vector<sim::Outcome>& outcomes) {
  for (const sim::Outcome& outcome : outcomes) {
    const std::string value = outcome.value ? fmt::format("{:.6g}", *outcome.value) : "nothing";
    std::fprintf(stderr, "%-28s %s: %s, limit %g\n", outcome.name.c_str(),
                 outcome.passed ? "ok" : "FAILED", value.c_str(), outcome.limit);
  }
}

void print_failure(const SimOptions& options, const sim::Report& report) {
  if (!report.failure.empty()) {
    std::fprintf(stderr, "broken at %.6f s: %s\n", report.failed_at, report.failure.c_str());
  }
  std::fputs(fmt::format("seed {} failed; again, with what happened: {}\n", report.seed,
                         again(options, report.seed))
                 .c_str(),
             stderr);
}

/// "A..B", both included.
base::Result<std::pair<std::uint64_t, std::uint64_t>> parse_seeds(std::string_view text) {
  const auto dots = text.find("..");
  if (dots != std::string_view::npos) {
    const auto first = base::parse_number<std::uint64_t>(text.substr(0, dots));
    const auto last = base::parse_number<std::uint64_t>(text.substr(dots + 2));
    if (first && last && *first <= *last && *last - *first < kSeedsMax) {
      return std::pair{*first, *last};
    }
  }
  return base::fail(base::ErrorCode::usage,
                    "--seeds {}: must be A..B with A <= B, at most {} seeds", text, kSeedsMax);
}

/// The scenario of the command line: a file, or one drawn from the seed.
base::Result<sim::Plan> load(const SimOptions& options, std::optional<std::uint64_t> seed) {
  const auto scenario_of = [&]() -> base::Result<sim::Scenario> {
    if (options.scenario == kRandom) return sim::random_scenario(seed.value_or(1));
    if (options.scenario == kRandomHostile && options.make_conduct) {
      return sim::random_hostile_scenario(seed.value_or(1));
    }
    return sim::read_scenario(options.scenario);
  };
  auto scenario = scenario_of();
  if (!scenario) return base::fail(scenario.error());
  scenario->set.insert(scenario->set.end(), options.set.begin(), options.set.end());
  return sim::make_plan(std::move(*scenario), seed);
}

/// The kind of a scenario's failure, found in a separate process: a failure other than the wanted
/// one may be an assertion, which ends the process.
std::string kind_of_failure(const sim::Scenario& scenario, std::uint64_t seed,
                            const sim::MakeConduct& make_conduct) {
  int ends[2];
  if (pipe(ends) != 0) return {};
  const pid_t child = fork();
  if (child == 0) {
    std::signal(SIGABRT, SIG_DFL);
    std::string kind;
    if (const auto plan = sim::make_plan(scenario, seed)) {
      if (const auto report = sim::run(*plan, {}, make_conduct))
        kind = sim::kind_of_failure(*report);
    }
    static_cast<void>(!write(ends[1], kind.data(), kind.size()));
    _exit(0);
  }
  close(ends[1]);
  std::string kind;
  char part[512];
  for (ssize_t got = 0; (got = read(ends[0], part, sizeof part)) > 0;) {
    kind.append(part, static_cast<std::size_t>(got));
  }
  close(ends[0]);
  if (child > 0) waitpid(child, nullptr, 0);
  return kind;
}

/// Drops the faults that this kind of failure does not need, and writes the rest to a file.
void write_regression(const sim::Plan& plan, const SimOptions& options) {
  const auto kind_of = [&](const sim::Scenario& scenario) {
    return kind_of_failure(scenario, plan.seed, options.make_conduct);
  };
  // A scenario that does not fail alone, as when two runs differed, is left as it is.
  sim::Scenario scenario = plan.scenario;
  if (const std::string kind = kind_of(scenario); !kind.empty()) {
    scenario = sim::shrink(std::move(scenario),
                           [&](const sim::Scenario& smaller) { return kind_of(smaller) == kind; });
  }
  scenario.seed = plan.seed;
  const std::string text = sim::to_toml(scenario, options.regressions);
  const std::string path =
      fmt::format("{}/{}-{}.toml", options.regressions, scenario.name, plan.seed);
  const auto written = base::replace_file(path, text, base::Durability::unsynced);
  std::fprintf(stderr, "%s\n",
               written ? ("written: " + path).c_str() : written.error().text.c_str());
}

/// How often each rare branch was taken, as a member of the JSON; empty if there are none.
std::string json_of_rare() {
  std::string json;
  for (const auto& [name, times] : base::simulated::rare_taken()) {
    json += fmt::format(R"({}"{}": {})", json.empty() ? "" : ", ", name, times);
  }
  return json.empty() ? json : fmt::format(R"(, "rare_taken": {{{}}})", json);
}

/// Rejects options that would be ignored together, or mix their output on stdout.
base::Status check_options(const SimOptions& options) {
  const auto refuse = [](std::string_view a, std::string_view b) {
    return base::fail(base::ErrorCode::usage, "{} and {} do not go together: leave one out", a, b);
  };
  if (options.scenario.empty() == options.judge.empty()) {
    return base::fail(base::ErrorCode::usage, "give a scenario, or --judge with the log of a run");
  }
  if (!options.judge.empty()) {
    if (options.seed) return refuse("--judge", "--seed");
    if (!options.seeds.empty()) return refuse("--judge", "--seeds");
    if (!options.set.empty()) return refuse("--judge", "--set");
    if (options.plan) return refuse("--judge", "--plan");
    if (options.trace) return refuse("--judge", "--trace");
  }
  if (!options.seeds.empty()) {
    if (options.seed) return refuse("--seeds", "--seed");
    if (options.plan) return refuse("--seeds", "--plan");
    if (options.trace) return refuse("--seeds", "--trace");
  } else if (!options.regressions.empty()) {
    return base::fail(base::ErrorCode::usage, "--regressions goes with --seeds A..B");
  }
  if (options.plan && options.trace) return refuse("--plan", "--trace");
  if (options.plan && !options.json.empty()) return refuse("--plan", "--json");
  if (options.trace && options.json == "-") return refuse("--trace", "--json -");
  return {};
}

/// Checks, before a simulation that may take long, that its report can be written.
base::Status check_place(const std::string& json) {
  if (json.empty() || json == "-") return {};
  return base::check_replaceable(json);
}

/// This output is used to start real peers: unlike a simulation, nobody else would check their run
/// file before.
int print_plan(const sim::Plan& plan) {
  const sim::Scenario& scenario = plan.scenario;
  if (!scenario.run_file.empty()) {
    const auto run_file = runfile::read_run_file(scenario.run_file, scenario.set);
    if (!run_file) return complain("sim", run_file.error());
  }
  std::puts(sim::to_json(plan).c_str());
  return 0;
}

/// Prints the verdict on a run with real peers.
int judge(const SimOptions& options) {
  const auto log = sim::read_observations(options.judge);
  if (!log) return complain("sim", log.error());
  const auto slash = options.judge.rfind('/');
  const auto verdict =
      sim::judge(*log, slash == std::string::npos ? "." : options.judge.substr(0, slash));
  if (!verdict) return complain("sim", verdict.error());
  for (const std::string& note : verdict->notes) say("{}\n", note);
  print(verdict->expectations);
  say("{}\n", verdict->passed ? "passed" : "FAILED");
  if (!options.json.empty()) {
    if (const auto written = write_json(options.json, sim::to_json(*verdict)); !written) {
      return complain("sim", written.error());
    }
  }
  return verdict->passed ? 0 : 1;
}

int run_seeds(const SimOptions& options) {
  const auto seeds = parse_seeds(options.seeds);
  if (!seeds) return complain("sim", seeds.error());
  std::uint64_t passed = 0;
  std::uint64_t failed = 0;
  std::optional<std::uint64_t> first;
  double peer_seconds = 0;
  const double before = core_seconds();
  // Counted from the first: the last seed may be the largest possible number.
  for (std::uint64_t i = 0; i <= seeds->second - seeds->first; ++i) {
    const std::uint64_t seed = seeds->first + i;
    const auto plan = load(options, seed);
    if (!plan) return complain("sim", plan.error());
    prepare_abort(options, plan->seed);
    auto report = sim::run(*plan, {}, options.make_conduct);
    if (!report) return complain("sim", report.error());
    peer_seconds += report->peer_seconds;
    if (seed % kTwiceEvery == 0) {
      const auto again = sim::run(*plan, {}, options.make_conduct);
      if (!again) return complain("sim", again.error());
      peer_seconds += again->peer_seconds;
      if (again->trace_hash != report->trace_hash) {
        report->passed = false;
        report->failure = "two runs of the same seed were not the same";
      }
    }
    ++(report->passed ? passed : failed);
    if (report->passed) continue;
    if (!first) first = seed;
    print(report->expectations);
    print_failure(options, *report);
    if (!options.regressions.empty()) write_regression(*plan, options);
  }
  const double speed = peer_seconds / (core_seconds() - before);
  const std::string json =
      fmt::format(R"({{"passed": {}, "failed": {}, "first_failing_seed": {}, )"
                  R"("peer_seconds_per_core_second": {:.0f}{}}})",
                  passed, failed, first ? std::to_string(*first) : "null", speed, json_of_rare());
  if (options.json.empty()) {
    std::puts(json.c_str());
  } else if (const auto written = write_json(options.json, json); !written) {
    return complain("sim", written.error());
  }
  return failed == 0 ? 0 : 1;
}

}  // namespace

int run_sim(const SimOptions& options) {
  if (const auto status = check_options(options); !status) return complain("sim", status.error());
  if (const auto place = check_place(options.json); !place) return complain("sim", place.error());
  if (!options.regressions.empty()) {
    if (const auto made = base::make_folder(options.regressions); !made) {
      return complain("sim", made.error());
    }
  }
  if (!options.judge.empty()) return judge(options);
  if (!options.seeds.empty()) return run_seeds(options);
  const auto plan = load(options, options.seed);
  if (!plan) return complain("sim", plan.error());
  if (options.plan) return print_plan(*plan);
  std::function<void(const std::string&)> trace;
  if (options.trace) trace = [](const std::string& line) { std::puts(line.c_str()); };
  if (plan->peers.size() >= kManyPeers) use_huge_pages();
  const double before = core_seconds();
  prepare_abort(options, plan->seed);
  const auto report = sim::run(*plan, trace, options.make_conduct);
  if (!report) return complain("sim", report.error());
  const double took = core_seconds() - before;
  print(report->expectations);
  if (report->spectral_gap) {
    std::fprintf(stderr, "spectral gap of the overlay: %.3f\n", *report->spectral_gap);
  }
  std::fprintf(stderr,
               "%s: %.0f virtual seconds, %llu events, trace %016llx, %.2f s of a core, %.0f "
               "peer-seconds a core-second\n",
               report->passed ? "passed" : "FAILED", report->seconds,
               static_cast<unsigned long long>(report->events),
               static_cast<unsigned long long>(report->trace_hash), took,
               report->peer_seconds / took);
  if (!report->passed) print_failure(options, *report);
  if (!options.json.empty()) {
    if (const auto written = write_json(options.json, sim::to_json(*report)); !written) {
      return complain("sim", written.error());
    }
  }
  return report->passed ? 0 : 1;
}

}  // namespace starling::peers
