#include "train/groups.hpp"

#include <algorithm>
#include <variant>

#include "base/assert.hpp"

namespace starling::train {
namespace {

using compute::Graph;
using compute::Op;
using compute::Tensor;
using compute::TensorKind;

/// The tensor that is the weight of a linear or conv2d layer; kNoTensor for other ops.
std::size_t weight_of(const Op& op) {
  if (const auto* linear = std::get_if<compute::Linear>(&op.kind)) return linear->weight;
  if (const auto* conv = std::get_if<compute::Conv2d>(&op.kind)) return conv->weight;
  return compute::kNoTensor;
}

/// The number of rows of each matrix in a layer's weight.
std::vector<std::size_t> rows_of(const Graph& graph, std::size_t index, const Tensor& weight) {
  const std::size_t rows = weight.shape[0];
  if (const auto* conv = std::get_if<compute::Conv2d>(&graph.ops[index].kind)) {
    return std::vector<std::size_t>(conv->groups, rows / conv->groups);
  }
  for (const Op& next : graph.ops) {
    if (std::ranges::find(next.inputs, index) == next.inputs.end()) continue;
    if (const auto* attention = std::get_if<compute::Attention>(&next.kind)) {
      const std::size_t keys = std::size_t{attention->kv_heads} * attention->head_size;
      return {rows - 2 * keys, keys, keys};
    }
    if (std::holds_alternative<compute::SwiGlu>(next.kind)) return {rows / 2, rows / 2};
  }
  return {rows};
}

bool decays(TensorKind kind) { return kind == TensorKind::weight || kind == TensorKind::embedding; }

}  // namespace

std::vector<Group> make_groups(const Graph& graph, const Config& config) {
  std::vector<bool> hidden(graph.tensors.size());
  if (config.optimizer == Optimizer::muon) {
    for (const Matrix& matrix : hidden_matrices(graph)) hidden[matrix.tensor] = true;
  }
  std::vector<Group> groups;
  for (std::size_t i = 0; i < graph.tensors.size(); ++i) {
    const Tensor& tensor = graph.tensors[i];
    Group group{.rule = config.optimizer,
                .decays = config.weight_decay > 0 && decays(tensor.kind),
                .offset = tensor.offset,
                .size = tensor.size};
    if (config.optimizer == Optimizer::muon && !hidden[i]) group.rule = Optimizer::adamw;
    if (!groups.empty() && groups.back().rule == group.rule &&
        groups.back().decays == group.decays) {
      groups.back().size += group.size;
    } else {
      groups.push_back(group);
    }
  }
  return groups;
}

std::vector<Matrix> hidden_matrices(const Graph& graph) {
  std::size_t last = 0;
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    if (weight_of(graph.ops[i]) != compute::kNoTensor) last = i;
  }
  std::vector<Matrix> matrices;
  for (std::size_t i = 0; i < last; ++i) {
    const std::size_t index = weight_of(graph.ops[i]);
    if (index == compute::kNoTensor) continue;
    const Tensor& weight = graph.tensors[index];
    if (weight.kind != TensorKind::weight) continue;
    const std::size_t cols = weight.size / weight.shape[0];
    std::size_t offset = weight.offset;
    for (const std::size_t rows : rows_of(graph, i, weight)) {
      matrices.push_back({index, offset, rows, cols});
      offset += rows * cols;
    }
  }
  std::ranges::sort(matrices, {}, &Matrix::offset);
  return matrices;
}

}  // namespace starling::train
