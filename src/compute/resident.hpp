// Training where the parameters are: a replica, its gradient and the update rule's state stay in
// the device's memory, and between two steps nothing but samples, sums and deltas travels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.hpp"
#include "compute/batch.hpp"
#include "compute/program.hpp"
#include "compute/replica_memory.hpp"
#include "compute/update.hpp"

namespace starling::compute {

/// What Program::reside reserves beside the replica.
struct Residence {
  MirrorType mirrors = MirrorType::float32;
  std::size_t states = 0;    ///< vectors of the update rule, of parameter_count elements each
  bool accumulates = false;  ///< a step's gradient comes in several pieces
  std::vector<bool> decays;  ///< a tensor of the graph: whether its weights decay
};

/// What a program does with a replica that lives beside it. All that Program says of threads and
/// errors holds here, too.
class Resident {
 public:
  virtual ~Resident() = default;

  /// y, r and the mirrors; all zeros at first.
  [[nodiscard]] virtual ReplicaMemory& replica() noexcept = 0;

  /// What forward_backward() does with a gradient: it times `share` takes the place of what was
  /// there or, with `add`, is added to it.
  struct Share {
    float share = 1;
    bool add = false;
  };
  /// As Program's, at y; the gradient stays here. `next`: the batch of the next call, or null. It
  /// is copied while this one is computed, and must not change until then.
  [[nodiscard]] virtual base::Result<float> forward_backward(std::span<float> buffers,
                                                             const Batch& batch, std::uint64_t seed,
                                                             Share share, const Batch* next) = 0;
  /// Of the gradient's elements; not finite where one of them is not.
  [[nodiscard]] virtual base::Result<double> gradient_squares() = 0;
  /// Applies the gradient to y: with one state vector, or with two.
  [[nodiscard]] virtual base::Status update(const SgdUpdate& by) = 0;
  [[nodiscard]] virtual base::Status update(const AdamUpdate& by) = 0;
  /// State vector number `which`: sgd's v; adamw's m, then s.
  [[nodiscard]] virtual base::Status read_state(std::size_t which, std::span<float> to) = 0;
  [[nodiscard]] virtual base::Status write_state(std::size_t which,
                                                 std::span<const float> from) = 0;

  /// Keeps x as it is now for evaluate() and outputs(), until the next forward_backward().
  [[nodiscard]] virtual base::Status hold_still() = 0;
  /// As Program's, of what hold_still() kept.
  [[nodiscard]] virtual base::Result<Evaluation> evaluate(std::span<const float> buffers,
                                                          const Batch& batch) = 0;
  [[nodiscard]] virtual base::Result<std::span<const float>> outputs(std::span<const float> buffers,
                                                                     const Batch& batch) = 0;
};

}  // namespace starling::compute
