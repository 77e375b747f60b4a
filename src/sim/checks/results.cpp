// The results of the peers that ended their run.
#include "sim/checks/check.hpp"
#include "sim/checks/replicas.hpp"
#include "sim/judge/statistics.hpp"
#include "train/distances.hpp"

namespace starling::sim {
namespace {

class Results final : public Check {
 public:
  explicit Results(const Scene& scene) : world_(scene.world), findings_(scene.findings) {}

  void finish() override {
    const Scenario& scenario = world_.plan().scenario;
    std::vector<Result> results;
    std::vector<std::vector<float>> replicas;
    for (const Node* node : trained(world_)) {
      if (!node->finished) continue;
      const auto& evaluated = node->worker->evaluated();
      Result& result = results.emplace_back();
      if (evaluated) result.accuracy = evaluated->accuracy;
      if (evaluated) result.loss = evaluated->loss;
      result.sent_bytes = static_cast<double>(node->sent_bytes);
      if (expects(scenario, Measure::distance_max)) replicas.push_back(replica_of(*node));
    }
    measure_results(results, findings_.measured);
    findings_.measured[Measure::distance_max] = largest(train::distances(replicas));
    if (expects(scenario, Measure::optimum_distance_max)) {
      findings_.measured[Measure::optimum_distance_max] = optimum_distance(world_);
    }
  }

 private:
  const World& world_;
  Findings& findings_;
};

}  // namespace

std::unique_ptr<Check> make_results(const Scene& scene) { return std::make_unique<Results>(scene); }

}  // namespace starling::sim
