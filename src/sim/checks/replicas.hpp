// The results of training: how far apart the replicas are, and how far from the optimum.
#pragma once

#include <optional>
#include <vector>

#include "sim/world.hpp"

namespace starling::sim {

// All functions leave out twins, hostile peers, and peers that left or ended with an error.

/// Peers that run, or have ended their run.
[[nodiscard]] std::vector<const Node*> trained(const World& world);
[[nodiscard]] std::vector<float> replica_of(const Node& node);

// Of those, the largest |x_i - mean| / |mean|; nothing for fewer than two.
[[nodiscard]] std::optional<double> largest_distance(const World& world);
/// The same for their buffers; nothing if there are none.
[[nodiscard]] std::optional<double> buffer_distance(const World& world);

/// Mean |x_i - mean| / |mean| of the peers that run; nothing for fewer than two.
[[nodiscard]] std::optional<double> mean_distance(const World& world);
/// Largest relative distance from the optimum; nothing if none is known.
[[nodiscard]] std::optional<double> optimum_distance(const World& world);

}  // namespace starling::sim
