// What training came to: how good the replicas are, how far apart, and at what cost.
#pragma once

#include <cstddef>
#include <optional>

#include "sim/world.hpp"

namespace starling::sim {

// Twins, and peers that left or ended with an error, are left out throughout.

/// Peers that have ended their run.
[[nodiscard]] std::size_t count_finished(const World& world);
/// Mean of the peers that have ended their run; nothing: none has.
[[nodiscard]] std::optional<double> final_accuracy(const World& world);
[[nodiscard]] std::optional<double> final_loss(const World& world);
/// Bytes of frames since they started.
[[nodiscard]] std::optional<double> mean_sent(const World& world);

// Largest |x_i - mean| / |mean|; nothing of fewer than two.
/// Of the peers that have ended their run.
[[nodiscard]] std::optional<double> final_distance(const World& world);
/// Of these and of those that run.
[[nodiscard]] std::optional<double> largest_distance(const World& world);
/// The same of their buffers; nothing where there are none.
[[nodiscard]] std::optional<double> buffer_distance(const World& world);

/// Mean |x_i - mean| / |mean| of the peers that run; nothing of fewer than two.
[[nodiscard]] std::optional<double> mean_distance(const World& world);
/// Largest relative distance from the optimum; nothing where none is known.
[[nodiscard]] std::optional<double> optimum_distance(const World& world);

}  // namespace starling::sim
