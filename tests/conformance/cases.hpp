// The networks that every backend is held to: each op, shape and option, branches, losses, and
// whole small models. Most have a twin in torch_cases.py.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "compute/graph.hpp"

namespace starling::conformance {

// Tolerances are shares of the largest value of a tensor, since rounding errors grow with the terms
// of the sum that they come from, not with its result. Float32 rounds to 6e-8: sums of some hundred
// terms, and a few layers of them in a row, stay below a hundred times that.
inline constexpr double kTolerance = 5e-6;
/// Batch norm of features has one value per sample; if they lie close together, it divides by the
/// small rest of their differences.
inline constexpr double kToleranceOfFewValues = 2e-5;

struct Case {
  std::string name;  ///< also of its file in stored/
  std::function<compute::Graph()> graph;
  double tolerance = kTolerance;
  /// A step of training needs this many samples: for a single one the variance is not defined, and
  /// batch norm turns any two into plus and minus one.
  std::uint32_t samples_min = 1;
};

using Cases = std::vector<Case>;

[[nodiscard]] Cases image_cases();       ///< linear, conv2d, pools, flatten
[[nodiscard]] Cases norm_cases();        ///< batch, layer and RMS norm
[[nodiscard]] Cases sequence_cases();    ///< embedding, positions, attention
[[nodiscard]] Cases activation_cases();  ///< GELU, SiLU, SwiGLU, dropout
[[nodiscard]] Cases branch_cases();      ///< results that several ops use
[[nodiscard]] Cases loss_cases();
/// Small models: a ResNet, and the presets of a GPT-2 and a Llama. Their files have a run of
/// training, too.
[[nodiscard]] Cases run_cases();
/// Presets of residual networks, with few channels.
[[nodiscard]] Cases deep_cases();
/// Large enough to be shared among threads and cut into blocks; without a file.
[[nodiscard]] Cases wide_cases();

}  // namespace starling::conformance
