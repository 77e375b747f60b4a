// The update rule of each part of the flat parameter vector.
#pragma once

#include <cstddef>
#include <vector>

#include "compute/graph.hpp"
#include "train/config.hpp"

namespace starling::train {

/// A contiguous part of the parameters with one rule.
struct Group {
  Optimizer rule = Optimizer::sgd;
  bool decays = false;  ///< whether the weight decay applies
  std::size_t offset = 0;
  std::size_t size = 0;

  friend bool operator==(const Group&, const Group&) = default;
};

/// The groups, without gaps and in order; neighbours differ. Weight decay applies to weights and
/// embeddings, not to biases and norms. Muon applies to hidden_matrices(), AdamW to the rest.
[[nodiscard]] std::vector<Group> make_groups(const compute::Graph& graph, const Config& config);

/// A part of the parameters as a dense row-major matrix.
struct Matrix {
  std::size_t tensor = 0;  ///< index into Graph::tensors
  std::size_t offset = 0;
  std::size_t rows = 0;
  std::size_t cols = 0;

  friend bool operator==(const Matrix&, const Matrix&) = default;
};

/// The matrices of hidden layers, in order: the weights of linear and conv2d layers other than the
/// last one, which makes the outputs. A conv2d weight is [out, in * kernel * kernel], one matrix a
/// group. A linear layer with several purposes has several matrices: queries, keys and values
/// before an attention, both halves before a SwiGLU.
[[nodiscard]] std::vector<Matrix> hidden_matrices(const compute::Graph& graph);

}  // namespace starling::train
