// The needs of a peer of a run: memory, operations and bytes. For `starling check`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "compute/graph.hpp"
#include "runfile/run_file.hpp"

namespace starling::runtime {

/// Bytes, where nothing else is said.
struct Needs {
  std::uint64_t parameters = 0;  ///< their number
  std::uint64_t buffers = 0;     ///< their number
  std::uint64_t initial = 0;     ///< the parameters that the run starts with
  std::uint64_t replica = 0;     ///< parameters as trained, and what is held back
  std::uint64_t mirrors = 0;     ///< two a link
  std::uint64_t grace = 0;       ///< mirrors of broken links, at most: beside all else, for a while
  std::uint64_t deltas = 0;      ///< two a link, three where the replica resides, and work space
  std::uint64_t ring = 0;        ///< modes of a ring: what is averaged, and means that are kept
  std::uint64_t training = 0;    ///< gradient and the optimizer's state
  std::uint64_t activations = 0;  ///< what a batch goes through, and work space: the arena
  /// Parameters as they are saved and, where the replica resides, the optimizer's state for as
  /// long as that takes.
  std::uint64_t saving = 0;
  std::uint64_t data = 0;  ///< samples in memory, their order, and batches filled ahead
  /// Sent by one end in one exchange without buffers; all-reduce: by a peer in a step.
  std::uint64_t exchange = 0;
  std::uint64_t keyframe = 0;         ///< sent once a link that opens, with the buffers
  double forward_flops = 0;           ///< a sample
  double training_flops = 0;          ///< a sample
  bool compiled = false;              ///< otherwise activations are the least there can be
  bool on_gpu = false;                ///< activations lie in the GPU's memory, not in the machine's
  bool on_device = false;             ///< and replica, mirrors and what training keeps, too
  std::vector<std::string> slow_ops;  ///< as Program's, once compiled

  /// Of the machine.
  [[nodiscard]] std::uint64_t memory() const noexcept {
    return initial + (on_device ? 0 : replica + mirrors + deltas + training) + ring +
           (on_gpu ? 0 : activations) + saving + data;
  }
  [[nodiscard]] std::uint64_t gpu_memory() const noexcept {
    return (on_device ? replica + mirrors + deltas + training : 0) + (on_gpu ? activations : 0);
  }
};

/// Whether a peer of this run keeps its replica where its device has its memory. Who reduces
/// gradients needs them, and the parameters, in the machine's.
[[nodiscard]] bool may_train_on_device(const runfile::RunFile& run_file);

/// Neighbours that each peer seeks; the middle of a star (swarm.hub) has up to
/// membership::kDegreeMax instead.
[[nodiscard]] std::uint32_t links_of(const runfile::RunFile& run_file);

/// All that follows from run file and graph alone, where train.device is no longer "auto". `data`:
/// bytes in memory, samples and batches.
[[nodiscard]] Needs estimate(const runfile::RunFile& run_file, const compute::Graph& graph,
                             std::uint64_t data);

/// The same with activations and the optimizer's state as the device has them: compiles the graph,
/// and on a GPU makes the replica, its mirrors and deltas, which takes that memory for a moment.
/// Errors: the device's.
[[nodiscard]] base::Result<Needs> measure(const runfile::RunFile& run_file,
                                          const compute::Graph& graph, Needs needs);

/// Bytes of memory that this machine has to spare, within the limits of its control group; nothing
/// where that cannot be told.
[[nodiscard]] std::optional<std::uint64_t> available_memory();

/// Error (ErrorCode::run_file): the needs are more than `available`, with what to lower.
[[nodiscard]] base::Status check_memory(const Needs& needs, std::uint64_t available);

}  // namespace starling::runtime
