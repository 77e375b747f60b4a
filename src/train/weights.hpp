// A model's values as named tensors: from its vectors to files and back.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.hpp"
#include "base/result.hpp"
#include "compute/graph.hpp"
#include "model/model.hpp"
#include "train/safetensors.hpp"

namespace starling::train {

/// All values of a model, laid out as its graph says.
struct Weights {
  std::vector<float> parameters;
  std::vector<float> buffers;

  friend bool operator==(const Weights&, const Weights&) = default;
};

/// One view for each tensor, with its name, into a vector laid out like them. The views live as
/// long as `values`.
[[nodiscard]] std::vector<TensorView> tensor_views(std::span<const compute::Tensor> tensors,
                                                   std::span<const float> values);

/// Whether the file has tensors with these names. Error (ErrorCode::data): names the missing ones.
[[nodiscard]] base::Status check_has(const TensorFile& file,
                                     std::span<const compute::Tensor> tensors);

/// Copies these tensors from a file to a vector laid out like them.
/// Errors (ErrorCode::data) name the tensor; `values` may then be partly overwritten.
[[nodiscard]] base::Status read_tensors(const TensorFile& file,
                                        std::span<const compute::Tensor> tensors,
                                        std::span<float> values);

/// The least value that a replica accepts in this tensor: variances are not below zero. The
/// greatest is delta::format::kMagnitudeMax in all tensors.
[[nodiscard]] float least_value(const compute::Tensor& tensor) noexcept;

/// All values of a graph, from a file that holds exactly its tensors. PyTorch's counters beside the
/// buffers of batch norms ("X.num_batches_tracked") are passed over.
/// Errors (ErrorCode::data) name missing and unexpected tensors, a tensor of another shape with
/// both shapes, and a tensor with a value that is not finite or that a replica does not accept.
[[nodiscard]] base::Result<Weights> read_weights(const TensorFile& file,
                                                 const compute::Graph& graph);

/// The weights that a run starts from.
struct InitialWeights {
  Weights weights;
  std::optional<base::Hash128> file;  ///< XXH3-128 of the file, if they come from one
};

/// The weights that the model draws from `seed`, or those of the safetensors file at the path
/// `init`, if that is not empty. Errors (ErrorCode::data): the file cannot be read; those of
/// read_weights.
[[nodiscard]] base::Result<InitialWeights> initial_weights(const model::Model& model,
                                                           std::uint64_t seed,
                                                           const std::string& init);

/// All parameters of a file of weights of any model, tensor after tensor, without buffers: buffers
/// are statistics of the last batches. Errors (ErrorCode::data): a tensor is not of floats.
[[nodiscard]] base::Result<std::vector<float>> read_parameters(const TensorFile& file);

/// Whether a tensor in a file of weights is a buffer, judged by its name.
[[nodiscard]] bool is_buffer_name(std::string_view tensor) noexcept;

/// The name of the counter that PyTorch keeps beside "X.running_mean": "X.num_batches_tracked".
/// Empty for any other name.
[[nodiscard]] std::string batch_counter_name(std::string_view tensor);

}  // namespace starling::train
