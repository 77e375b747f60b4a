#include "runtime/swarm_distance.hpp"

#include <algorithm>

#include "train/checkpoint.hpp"
#include "train/distances.hpp"
#include "train/weights.hpp"

namespace starling::runtime {

base::Result<double> replica_distance(const std::vector<std::string>& dirs,
                                      const base::Hash128& run) {
  std::vector<std::vector<float>> replicas;
  for (const std::string& dir : dirs) {
    const auto loaded =
        train::load_latest_checkpoint(dir + "/checkpoints", run, train::CheckpointParts::model);
    if (!loaded.checkpoint) {
      return base::fail(base::ErrorCode::data, "{}: has no checkpoint of this run", dir);
    }
    auto parameters = train::read_parameters(loaded.checkpoint->model);
    if (!parameters) return base::fail(parameters.error());
    if (!replicas.empty() && parameters->size() != replicas.front().size()) {
      return base::fail(base::ErrorCode::data, "{}: its replica has another size", dir);
    }
    replicas.push_back(std::move(*parameters));
  }
  const auto distances = train::distances(replicas);
  return distances.empty() ? 0.0 : std::ranges::max(distances);
}

}  // namespace starling::runtime
