// How far the replicas of a finished swarm are apart.
#pragma once

#include <string>
#include <vector>

#include "base/hash.hpp"
#include "base/result.hpp"

namespace starling::runtime {

/// max |x_i - mean| / |mean| (Euclidean) over the newest checkpoints of a run in these peers'
/// folders. Errors (data): a checkpoint is missing, damaged or of another size.
[[nodiscard]] base::Result<double> replica_distance(const std::vector<std::string>& dirs,
                                                    const base::Hash128& run);

}  // namespace starling::runtime
