// A backend compiles a graph to a program, which computes losses and gradients.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "compute/batch.hpp"
#include "compute/graph.hpp"
#include "compute/precision.hpp"

namespace starling::compute {

class Resident;
struct Residence;

/// Sums over the labels of a batch, so that batches of different sizes can be added up.
struct Evaluation {
  double loss_sum = 0;      ///< nats, or mean squared differences
  std::size_t correct = 0;  ///< labels that have the largest output (first of equals)
  std::size_t count = 0;    ///< labels; for a mean_squared loss, samples

  Evaluation& operator+=(const Evaluation& other) noexcept {
    loss_sum += other.loss_sum;
    correct += other.correct;
    count += other.count;
    return *this;
  }
};

/// A graph compiled for batches of up to a fixed number of samples. Keeps no parameters: they come
/// with each call, `parameters` and `gradient` are laid out as in Graph::tensors, `buffers` as in
/// Graph::buffers. Used on one thread, the one that compiled it; a step allocates nothing. Equal
/// inputs give equal bits on the same processor with the same number of threads. A batch has 1 to
/// batch() samples.
/// Errors (ErrorCode::device) are the device's, and leave the outputs undefined; move_to_device()
/// may also fail with no_room, and then nothing has changed.
class Program {
 public:
  virtual ~Program() = default;

  /// Writes the gradient of the mean loss over the batch's labels and returns that loss, as in
  /// training: updates the buffers, and `seed` (a new one each step) determines the dropped values.
  /// Loss and gradient may be not finite if parameters or samples are too large.
  [[nodiscard]] virtual base::Result<float> forward_backward(std::span<const float> parameters,
                                                             std::span<float> buffers,
                                                             const Batch& batch, std::uint64_t seed,
                                                             std::span<float> gradient) = 0;

  /// Loss and hits, as in evaluation: with labels that are not smoothed.
  [[nodiscard]] virtual base::Result<Evaluation> evaluate(std::span<const float> parameters,
                                                          std::span<const float> buffers,
                                                          const Batch& batch) = 0;

  /// The outputs, as in evaluation: Graph::outputs() floats a sample, in the order of the last op's
  /// shape, until the next call. Labels and targets of the batch are not used.
  [[nodiscard]] virtual base::Result<std::span<const float>> outputs(
      std::span<const float> parameters, std::span<const float> buffers, const Batch& batch) = 0;

  /// From now on, a replica lives with the program, in the device's memory, as long as the program
  /// does; call it once. Null if parameters are in the device's memory anyway: on the processor.
  [[nodiscard]] virtual base::Result<Resident*> move_to_device(const Residence&) { return nullptr; }

  /// The number of samples it was compiled for.
  [[nodiscard]] virtual std::uint32_t batch() const noexcept = 0;
  /// Bytes of activations and work space that it holds.
  [[nodiscard]] virtual std::size_t memory_bytes() const noexcept = 0;
  /// Ops, by name and kind, that the device's libraries do not support: they take many times longer
  /// than ops of their size. For people, to be reported once.
  [[nodiscard]] virtual std::vector<std::string> slow_ops() const { return {}; }
  /// Why steps take longer than they should, while they do; known after two steps. For people, to
  /// be reported when it begins and when it ends.
  [[nodiscard]] virtual std::optional<std::string> slow_steps() const { return {}; }
};

struct CompileOptions {
  std::uint32_t batch = 0;    ///< largest number of samples, 1 to kBatchMax
  std::uint32_t threads = 1;  ///< of the processor, where that applies
  Precision precision = Precision::float32;
};

/// A kind of device that can compile graphs.
class Backend {
 public:
  virtual ~Backend() = default;

  /// Compiles `graph`. The program runs on the calling thread.
  /// Errors: device, if the device cannot run the graph; no_room, if a GPU lacks the memory;
  /// run_file, for an invalid batch or number of threads.
  [[nodiscard]] virtual base::Result<std::unique_ptr<Program>> compile(
      const Graph& graph, const CompileOptions& options) = 0;

  /// Whether Precision::bfloat16 differs from Precision::float32 here.
  [[nodiscard]] virtual bool has_bfloat16() const noexcept = 0;
};

/// A device that was opened.
struct Device {
  std::string name;   ///< "cpu", "cuda:0"
  std::string about;  ///< the kind of a GPU; for the processor instead of a GPU, the reason
  std::unique_ptr<Backend> backend;
};

/// The device named in a run file: "cpu", "cuda:N" (GPU number N, from 0), or "auto": "cuda:0" if
/// that can be opened, otherwise "cpu". Errors: run_file (any other name), device (names what the
/// GPU lacks).
[[nodiscard]] base::Result<Device> open_device(std::string_view device);

/// Only the backend of open_device.
[[nodiscard]] base::Result<std::unique_ptr<Backend>> open_backend(std::string_view device);

}  // namespace starling::compute
