// A run file's layers made into a graph, and the initial parameters of every peer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "compute/graph.hpp"
#include "model/input_output.hpp"
#include "model/spec.hpp"

namespace starling::model {

/// A checked model: what to compute and where each parameter lies.
struct Model {
  compute::Graph graph;

  /// Number of elements of the flat parameter vector.
  [[nodiscard]] std::size_t parameter_count() const noexcept { return graph.parameter_count; }

  /// The parameters before the first step, the same bits on every machine. Scales are one, shifts
  /// zero. For each element of other tensors, in order, base::Rng(seed) gives one number. 24 bits
  /// of it become an odd multiple of 2^-24 between -1 and 1 (exact in float32), times a bound:
  /// - sqrt(3) initial_std if the tensor has that standard deviation. The bias of such a layer is
  ///   zero and draws nothing.
  /// - sqrt(6 / fan_in) for weights that feed a ReLU (He et al., arXiv:1502.01852), with pools,
  ///   batch norms, dropouts, sums and flattening in between or not;
  /// - sqrt(1 / fan_in) for others, and for all biases (PyTorch's default).
  ///   The bound takes at most one division, one square root and one product, each correctly
  ///   rounded by IEEE 754.
  [[nodiscard]] std::vector<float> initial_parameters(std::uint64_t seed) const;

  /// The buffers before the first step: means zero, variances one.
  [[nodiscard]] std::vector<float> initial_buffers() const;

  /// A table for people: number, name, kind, output shape and parameters of each op, then the
  /// total.
  [[nodiscard]] std::string table() const;
};

/// An op's own parameters: a tied layer has none.
[[nodiscard]] std::size_t parameters_of(const compute::Graph& graph, const compute::Op& op);

/// Makes the layers, or those of the preset, into a graph for data with this input and output:
/// checks that the shapes fit, that names of tensors differ, and that the last layer's output fits
/// the loss. Errors (ErrorCode::run_file) name the layer: its place in the run file, from 0, its
/// name and kind ("layers[3] 'layer2.0.conv1' (conv2d)"; for a preset's layer, the place in the
/// preset's list).
[[nodiscard]] base::Result<Model> build(const Spec& spec, const InputOutput& in_out);

/// The same for samples of floats in the shape of spec.input.
[[nodiscard]] base::Result<Model> build(const Spec& spec, std::uint32_t classes);

}  // namespace starling::model
