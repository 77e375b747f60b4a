// A plain network in double precision, straight from the definitions in compute/graph.hpp: backends
// must agree with it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "compute/batch.hpp"
#include "compute/graph.hpp"

namespace starling::conformance {

using Doubles = std::vector<double>;

enum class Mode { evaluation, training };

/// The results of a pass over a batch of `count` samples.
struct Reference {
  Doubles outputs;          ///< count x Graph::outputs()
  double loss = 0;          ///< mean
  std::size_t correct = 0;  ///< labels that have the largest output (first of equals)
  Doubles buffers;          ///< after the pass
};

/// `seed` determines the values that a training pass drops.
[[nodiscard]] Reference run_reference(const compute::Graph& graph, const Doubles& parameters,
                                      const Doubles& buffers, const compute::Batch& batch,
                                      std::size_t count, Mode mode, std::uint64_t seed);

}  // namespace starling::conformance
