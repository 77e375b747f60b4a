#include "model/model.hpp"

#include <algorithm>
#include <array>
#include <variant>

#include <fmt/core.h>

namespace starling::model {

std::size_t parameters_of(const compute::Graph& graph, const compute::Op& op) {
  return std::visit(
      [&](const auto& kind) -> std::size_t {
        std::size_t count = 0;
        if constexpr (requires { kind.weight; }) {
          const compute::Tensor& weight = graph.tensors[kind.weight];
          const bool tied = std::holds_alternative<compute::Linear>(op.kind) &&
                            weight.kind == compute::TensorKind::embedding;
          if (!tied) count += weight.size;
        }
        if constexpr (requires { kind.bias; }) {
          if (kind.bias != compute::kNoTensor) count += graph.tensors[kind.bias].size;
        }
        return count;
      },
      op.kind);
}

std::string Model::table() const {
  using Row = std::array<std::string, 5>;
  std::vector<Row> rows{
      {"#", "name", "layer", "output", "parameters"},
      {"", "", graph.vocabulary > 0 ? "tokens" : "input", compute::to_string(graph.input), ""}};
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    const compute::Op& op = graph.ops[i];
    rows.push_back({fmt::format("{}", i), op.name, compute::name_of(op), compute::to_string(op.out),
                    fmt::format("{}", parameters_of(graph, op))});
  }
  rows.push_back({"", "", "total", "", fmt::format("{}", graph.parameter_count)});
  std::array<std::size_t, 5> widths{};
  for (const Row& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const Row& row : rows) {
    text += fmt::format("{:>{}}  {:<{}}  {:<{}}  {:>{}}  {:>{}}\n", row[0], widths[0], row[1],
                        widths[1], row[2], widths[2], row[3], widths[3], row[4], widths[4]);
  }
  return text;
}

}  // namespace starling::model
