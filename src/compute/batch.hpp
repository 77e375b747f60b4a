// A batch of samples as every backend takes it: views, owned by whoever made them.
#pragma once

#include <cstdint>
#include <span>

namespace starling::compute {

/// Samples, one after the other, with what the model should say to them. Which of the spans are
/// used is the graph's choice; the others are empty. Every token is below the graph's vocabulary
/// and every label below its number of classes: who reads them from a file checks them.
struct Batch {
  std::span<const float> samples;        ///< in the order of the graph's input shape
  std::span<const std::int32_t> tokens;  ///< in place of samples: Graph::positions a sample
  std::span<const std::int32_t> labels;  ///< Graph::positions a sample
  std::span<const float> targets;        ///< of a mean_squared loss: Graph::outputs() a sample
};

}  // namespace starling::compute
