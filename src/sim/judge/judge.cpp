#include "sim/judge/judge.hpp"

#include <optional>
#include <utility>

#include <fmt/core.h>

#include "sim/judge/real_run.hpp"
#include "sim/judge/statistics.hpp"
#include "train/distances.hpp"
#include "train/safetensors.hpp"
#include "train/weights.hpp"

namespace starling::sim {
namespace {

base::Result<std::vector<float>> read_replica(const std::string& path) {
  const auto file = train::TensorFile::read(path);
  if (!file) return base::fail(file.error());
  return train::read_parameters(*file);
}

base::Result<std::optional<double>> distance_of(const std::vector<std::string>& paths,
                                                const std::string& folder) {
  std::vector<std::vector<float>> replicas;
  for (const std::string& path : paths) {
    auto replica = read_replica(fmt::format("{}/{}", folder, path));
    if (!replica) {
      return base::fail(replica.error().in("distance_max (scenarios/run --keep keeps replicas)"));
    }
    if (!replicas.empty() && replica->size() != replicas.front().size()) {
      return base::fail(base::ErrorCode::data, "{}/{}: its replica has another size", folder, path);
    }
    replicas.push_back(std::move(*replica));
  }
  return largest(train::distances(replicas));
}

}  // namespace

base::Result<Verdict> judge(const ObservationLog& log, const std::string& folder) {
  const Scenario& scenario = log.run.plan.scenario;
  const RealRun run(log.run);
  Verdict verdict{.expectations = {}, .measured = run.measured(), .notes = run.notes()};
  if (expects(scenario, Measure::distance_max)) {
    const auto distance = distance_of(run.replicas(), folder);
    if (!distance) return base::fail(distance.error());
    verdict.measured[Measure::distance_max] = *distance;
  }
  if (log.undisturbed) {
    const Measured calm = RealRun(*log.undisturbed).measured();
    std::optional<double>& failed = verdict.measured[Measure::failed_max];
    failed = failed.value_or(0) + calm[Measure::failed_max].value_or(0);
    verdict.measured[Measure::loss_ratio_max] =
        loss_ratio(verdict.measured[Measure::loss_max], calm[Measure::loss_max]);
  }
  verdict.expectations = outcomes_of(scenario, verdict.measured);
  verdict.passed = all_passed(verdict.expectations);
  return verdict;
}

}  // namespace starling::sim
