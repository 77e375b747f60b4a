// Training in a device's memory: a replica, its gradient and the update rule's state stay there,
// and between two steps only samples, sums and deltas travel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.hpp"
#include "compute/batch.hpp"
#include "compute/program.hpp"
#include "compute/update.hpp"
#include "delta/replica_memory.hpp"

namespace starling::compute {

/// The memory that Program::move_to_device reserves beside the replica.
struct Residence {
  delta::MirrorType mirrors = delta::MirrorType::float32;
  UpdateKind update = UpdateKind::none;  ///< none: it is not trained
  bool accumulates = false;              ///< steps may have several pieces
  std::vector<bool> decays;              ///< for each tensor of the graph: whether it decays
};

/// A part of a step's batch, no larger than the program takes.
struct Piece {
  Batch batch;
  float share = 1;         ///< of the step's gradient and loss
  std::uint64_t seed = 0;  ///< of dropout
};

/// The result of a step.
struct StepResult {
  float loss = 0;      ///< mean, before the step
  double squares = 0;  ///< sum over the gradient's elements; not finite if one of them is not
};

/// A program's operations on a replica that lives beside it. Program's rules for threads and errors
/// apply here, too.
class Resident {
 public:
  virtual ~Resident() = default;

  /// y, r and the mirrors; all zeros at first.
  [[nodiscard]] virtual delta::ReplicaMemory& replica() noexcept = 0;

  /// One step: the gradient at y, clipped, is applied to y by the residence's rule; moves the
  /// buffers. Gradient and loss are sums over the pieces, each times its share. If loss or squares
  /// are not finite, y and the rule's state stay unchanged. `next`: the first piece's batch of the
  /// next step, or null. It is copied while this step runs, and must not change until then.
  [[nodiscard]] virtual base::Result<StepResult> step(std::span<float> buffers,
                                                      std::span<const Piece> pieces,
                                                      const Update& update, const Batch* next) = 0;
  /// State vector number `which`: sgd's v; adamw's m, then s.
  [[nodiscard]] virtual base::Status read_state(std::size_t which, std::span<float> to) = 0;
  [[nodiscard]] virtual base::Status write_state(std::size_t which,
                                                 std::span<const float> from) = 0;

  /// Keeps the current x for evaluate() and outputs(), until the next step().
  [[nodiscard]] virtual base::Status snapshot() = 0;
  /// Like Program's, with the parameters that snapshot() kept.
  [[nodiscard]] virtual base::Result<Evaluation> evaluate(std::span<const float> buffers,
                                                          const Batch& batch) = 0;
  [[nodiscard]] virtual base::Result<std::span<const float>> outputs(std::span<const float> buffers,
                                                                     const Batch& batch) = 0;
};

}  // namespace starling::compute
