// A batch of samples for every backend: views, owned by their maker.
#pragma once

#include <cstdint>
#include <span>

namespace starling::compute {

/// Samples, one after the other, with their desired outputs. The graph determines which spans are
/// used; the others are empty. Every token is below the graph's vocabulary and every label below
/// its number of classes: the reader of a file checks them.
struct Batch {
  std::span<const float> samples;        ///< in the order of the graph's input shape
  std::span<const std::int32_t> tokens;  ///< instead of samples: Graph::positions per sample
  std::span<const std::int32_t> labels;  ///< Graph::positions a sample
  std::span<const float> targets;        ///< for a mean_squared loss: Graph::outputs() per sample
};

}  // namespace starling::compute
