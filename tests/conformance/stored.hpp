// PyTorch's results for a case, as tools/make-conformance stores them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compute/graph.hpp"
#include "harness.hpp"
#include "samples.hpp"

namespace starling::conformance {

inline constexpr std::uint64_t kStoredSeed = 20240607;

/// Computed in double precision and rounded once.
struct Stored {
  Samples samples;
  State state;
  std::vector<float> outputs;  ///< as in evaluation
  float evaluation_loss = 0;
  Step step;  ///< of training, with seed kStoredSeed
};

/// A run of plain SGD: step t has seed t and the batch number t modulo `batches`.
struct StoredRun {
  Samples samples;  ///< of all batches
  State state;      ///< before the first step
  std::size_t batch = 0;
  std::size_t batches = 0;
  float rate = 0;
  std::vector<float> losses;  ///< one a step
};

/// Reads the file of that name; an error in it fails the test.
[[nodiscard]] Stored read_stored(const std::string& name, const compute::Graph& graph);
[[nodiscard]] StoredRun read_run(const std::string& name, const compute::Graph& graph);

}  // namespace starling::conformance
