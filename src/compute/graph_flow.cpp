#include "compute/graph_flow.hpp"

#include <variant>

namespace starling::compute {

GraphFlow::GraphFlow(const Graph& graph)
    : graph_(graph), uses_(graph.ops.size()), needs_gradient_(graph.ops.size()) {
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    needs_gradient_[i] = has_parameters(graph.ops[i]);
    for (const ValueId input : graph.ops[i].inputs) {
      if (input == kGraphInput) continue;
      ++uses_[input];
      if (needs_gradient_[input]) needs_gradient_[i] = true;
    }
  }
  ++uses_.back();
}

bool GraphFlow::is_relu(std::size_t op) const {
  if (op >= graph_.ops.size()) return false;
  const auto* activation = std::get_if<Activation>(&graph_.ops[op].kind);
  return activation != nullptr && activation->kind == ActivationKind::relu;
}

bool GraphFlow::does_relu(std::size_t op) const {
  const auto& kind = graph_.ops[op].kind;
  const bool can = std::holds_alternative<Conv2d>(kind) || std::holds_alternative<Linear>(kind) ||
                   std::holds_alternative<BatchNorm>(kind) || std::holds_alternative<Add>(kind);
  return can && uses(op) == 1 && is_relu(op + 1) && graph_.ops[op + 1].inputs.front() == op;
}

}  // namespace starling::compute
