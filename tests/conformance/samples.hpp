// Batches and parameters of a case: from a seed, or from its file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/rng.hpp"
#include "compute/batch.hpp"
#include "compute/graph.hpp"

namespace starling::conformance {

/// Owns the data of a Batch.
struct Samples {
  std::vector<float> samples;
  std::vector<std::int32_t> tokens;
  std::vector<std::int32_t> labels;
  std::vector<float> targets;
  std::size_t count = 0;

  /// `count` samples from number `first` on.
  [[nodiscard]] compute::Batch view(std::size_t first, std::size_t count) const;
  [[nodiscard]] compute::Batch view() const { return view(0, count); }
};

/// A vector of parameters and one of buffers, as Graph::tensors and Graph::buffers lay them out.
struct State {
  std::vector<float> parameters;
  std::vector<float> buffers;
};

[[nodiscard]] Samples random_samples(const compute::Graph& graph, std::size_t count,
                                     base::Rng& rng);

/// Values that keep activations near one; buffers unlike those of a new network.
[[nodiscard]] State random_state(const compute::Graph& graph, base::Rng& rng);

}  // namespace starling::conformance
