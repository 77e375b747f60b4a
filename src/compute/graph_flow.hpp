// Facts about a graph for the backends' planners: the users of a result, and the need for a
// gradient.
#pragma once

#include <cstddef>
#include <vector>

#include "compute/graph.hpp"

namespace starling::compute {

/// The flow of a graph, which outlives this.
class GraphFlow {
 public:
  explicit GraphFlow(const Graph& graph);

  /// How many ops take the op's result; for the last op, the loss counts, too.
  [[nodiscard]] std::size_t uses(std::size_t op) const { return uses_[op]; }
  /// Whether the value depends on a parameter.
  [[nodiscard]] bool needs_gradient(ValueId value) const {
    return value != kGraphInput && needs_gradient_[value];
  }
  /// Also false after the last op.
  [[nodiscard]] bool is_relu(std::size_t op) const;
  /// Whether the op also does the ReLU after it: it can, and no other op takes its result.
  [[nodiscard]] bool does_relu(std::size_t op) const;

 private:
  const Graph& graph_;
  std::vector<std::size_t> uses_;     ///< of each op's result
  std::vector<bool> needs_gradient_;  ///< each op's result
};

}  // namespace starling::compute
