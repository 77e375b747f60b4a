// A run file's layers made into a graph, and the parameters that every peer starts from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "compute/graph.hpp"
#include "model/spec.hpp"

namespace starling::model {

/// A checked model: what to compute and where each parameter lies.
struct Model {
  compute::Graph graph;

  /// Number of elements of the flat parameter vector.
  [[nodiscard]] std::size_t parameter_count() const noexcept { return graph.parameter_count; }

  /// The parameters before the first step, the same bits on every machine: base::Rng(seed) gives
  /// one number a parameter, in order, of which 24 bits become an odd multiple of 2^-24 between
  /// -1 and 1 (exact in float32); one division, one square root and one product, each correctly
  /// rounded by IEEE 754, follow. Weights that feed a ReLU (pools in between do not matter) are
  /// uniform within sqrt(6 / fan_in) (He et al., arXiv:1502.01852), others within sqrt(1 / fan_in)
  /// as are all biases (PyTorch's default).
  [[nodiscard]] std::vector<float> initial_parameters(std::uint64_t seed) const;

  /// A table for people: number, kind, output shape and parameters of each layer, then the total.
  [[nodiscard]] std::string table() const;
};

/// Checks the layers' shapes and that the last gives one output a class. Errors
/// (ErrorCode::run_file) name the layer's number in the run file, from 1, and its kind.
[[nodiscard]] base::Result<Model> build(const Spec& spec, std::uint32_t classes);

}  // namespace starling::model
