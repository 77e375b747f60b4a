// The networks that every backend is held to: each op, shape and option, branches, losses, and
// whole small models. Each has a twin in PyTorch in tools/make-conformance.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "compute/graph.hpp"

namespace starling::conformance {

struct Case {
  std::string name;  ///< also of its file in stored/
  std::function<compute::Graph()> graph;
  /// A step of training needs so many samples: the variance of one alone is not defined.
  std::uint32_t samples_min = 1;
};

using Cases = std::vector<Case>;

[[nodiscard]] Cases image_cases();       ///< linear, conv2d, pools, flatten
[[nodiscard]] Cases norm_cases();        ///< batch, layer and RMS norm
[[nodiscard]] Cases sequence_cases();    ///< embedding, positions, attention
[[nodiscard]] Cases activation_cases();  ///< GELU, SiLU, SwiGLU, dropout
[[nodiscard]] Cases branch_cases();      ///< results with several users, or none
[[nodiscard]] Cases loss_cases();
[[nodiscard]] Cases model_cases();  ///< their files have a run of training, too

}  // namespace starling::conformance
