// What a backend makes of a graph: a program that computes losses and gradients.
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
  std::size_t count = 0;    ///< labels; of a mean_squared loss samples
};

/// A graph compiled for batches of up to a fixed number of samples. Keeps no parameters: they come
/// with each call, `parameters` and `gradient` laid out as Graph::tensors says, `buffers` as
/// Graph::buffers does. Used on one thread at a time, the one that compiled it; a step allocates
/// nothing. Equal inputs give equal bits on the same processor with the same number of threads.
/// A batch has 1 to batch() samples.
/// Errors (ErrorCode::device) are the device's, and leave the outputs undefined; reside() may also
/// find no_room, and then nothing has changed.
class Program {
 public:
  virtual ~Program() = default;

  /// Writes the gradient of the mean loss over the batch's labels and returns that loss, as in
  /// training: updates the buffers, and drops what `seed` (a new one each step) says. Loss and
  /// gradient may be not finite, where parameters or samples are too large.
  [[nodiscard]] virtual base::Result<float> forward_backward(std::span<const float> parameters,
                                                             std::span<float> buffers,
                                                             const Batch& batch, std::uint64_t seed,
                                                             std::span<float> gradient) = 0;

  /// Loss and hits, as in evaluation: of the labels without smoothing.
  [[nodiscard]] virtual base::Result<Evaluation> evaluate(std::span<const float> parameters,
                                                          std::span<const float> buffers,
                                                          const Batch& batch) = 0;

  /// The outputs, as in evaluation: Graph::outputs() floats a sample, in the order of the last
  /// op's shape, until the next call. Labels and targets of the batch are not looked at.
  [[nodiscard]] virtual base::Result<std::span<const float>> outputs(
      std::span<const float> parameters, std::span<const float> buffers, const Batch& batch) = 0;

  /// From now on a replica lives with the program, in the device's memory, for as long as the
  /// program does; once. Null, where parameters are in the device's memory anyway: the processor.
  [[nodiscard]] virtual base::Result<Resident*> reside(const Residence&) { return nullptr; }

  /// The number of samples it was compiled for.
  [[nodiscard]] virtual std::uint32_t batch() const noexcept = 0;
  /// Bytes of activations and work space that it holds.
  [[nodiscard]] virtual std::size_t memory_bytes() const noexcept = 0;
  /// Ops, by name and kind, that the device's libraries have no way for: they take many times
  /// longer than ops of their size. For people, to be told once.
  [[nodiscard]] virtual std::vector<std::string> slow_ops() const { return {}; }
  /// Why steps take longer than they should, for as long as they do; known after two of them. For
  /// people, to be told when it begins and when it ends.
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
  /// Errors: device, where the device cannot run the graph; no_room, where a GPU lacks the memory;
  /// run_file: a batch or a number of threads that is none.
  [[nodiscard]] virtual base::Result<std::unique_ptr<Program>> compile(
      const Graph& graph, const CompileOptions& options) = 0;

  /// Whether Precision::bfloat16 is another thing here than Precision::float32.
  [[nodiscard]] virtual bool has_bfloat16() const noexcept = 0;
};

/// A device that was opened.
struct Device {
  std::string name;   ///< "cpu", "cuda:0"
  std::string about;  ///< of a GPU what it is; of the processor in place of a GPU, why
  std::unique_ptr<Backend> backend;
};

/// The device named in a run file: "cpu", "cuda:N" (GPU number N, from 0), or "auto": "cuda:0"
/// where that can be opened, else "cpu". Errors: run_file (any other name), device (what is missing
/// for the GPU).
[[nodiscard]] base::Result<Device> open_device(std::string_view device);

/// The backend of open_device alone.
[[nodiscard]] base::Result<std::unique_ptr<Backend>> open_backend(std::string_view device);

}  // namespace starling::compute
