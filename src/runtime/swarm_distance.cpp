#include "runtime/swarm_distance.hpp"

#include <algorithm>
#include <cmath>

#include "train/checkpoint.hpp"
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
  double mean_square = 0;
  std::vector<double> distance_square(replicas.size());
  for (std::size_t i = 0; i < replicas.front().size(); ++i) {
    double mean = 0;
    for (const auto& replica : replicas) mean += replica[i];
    mean /= static_cast<double>(replicas.size());
    mean_square += mean * mean;
    for (std::size_t k = 0; k < replicas.size(); ++k) {
      distance_square[k] += (replicas[k][i] - mean) * (replicas[k][i] - mean);
    }
  }
  return std::sqrt(std::ranges::max(distance_square) / mean_square);
}

}  // namespace starling::runtime
