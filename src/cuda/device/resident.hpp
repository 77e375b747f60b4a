// A replica that lives with its program, and its training there.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "compute/resident.hpp"
#include "cuda/device/device_replica.hpp"
#include "cuda/kernels/update.hpp"
#include "cuda/plans/runner.hpp"

namespace starling::compute::cuda {

/// Adds its own lists of work to the queue: a step of one piece is one list, from spreading y to
/// the update, and waits once, for step()'s result.
class CudaResident final : public Resident {
 public:
  /// `runner` outlives it.
  [[nodiscard]] static base::Result<std::unique_ptr<CudaResident>> create(Runner& runner,
                                                                          const Residence& wanted);

  delta::ReplicaMemory& replica() noexcept override { return *replica_; }
  base::Result<StepResult> step(std::span<float> buffers, std::span<const Piece> pieces,
                                const Update& update, const Batch* next) override;
  base::Status read_state(std::size_t which, std::span<float> to) override;
  base::Status write_state(std::size_t which, std::span<const float> from) override;
  base::Status snapshot() override;
  base::Result<Evaluation> evaluate(std::span<const float> buffers, const Batch& batch) override;
  base::Result<std::span<const float>> outputs(std::span<const float> buffers,
                                               const Batch& batch) override;

  [[nodiscard]] std::size_t memory_bytes() const noexcept;

 private:
  /// Numbers of the queue's lists.
  struct Lists {
    std::size_t piece = 0;  ///< y's loss and gradient
    std::size_t step = 0;   ///< the same for the last piece, and the update
  };

  explicit CudaResident(Runner& runner) : runner_(runner) {}

  [[nodiscard]] base::Status reserve(const Residence& wanted);
  [[nodiscard]] base::Status reserve_training(const Residence& wanted);
  [[nodiscard]] base::Status add_lists(UpdateKind kind);
  [[nodiscard]] base::Result<Queue::Memory> allocate(std::size_t bytes, const char* what);
  [[nodiscard]] base::Status run_evaluation(std::span<const float> buffers, const Batch& batch);
  [[nodiscard]] KernelWork spread_work(const float* r) const;
  [[nodiscard]] KernelWork update_work(UpdateKind kind) const;
  [[nodiscard]] TensorPlaces tensors() const;
  /// The gradient to apply: the sum, if a step has several pieces.
  [[nodiscard]] float* gradient() const;
  [[nodiscard]] std::size_t gradient_size() const { return runner_.layout().count; }
  [[nodiscard]] std::size_t gradient_rows() const;
  [[nodiscard]] StepFigures* figures() const;
  [[nodiscard]] float* state(std::size_t which) const;

  Runner& runner_;
  std::unique_ptr<DeviceReplica> replica_;
  Queue::Memory places_{nullptr, nullptr};
  std::size_t tensor_count_ = 0;
  std::vector<Queue::Memory> states_;
  Queue::Memory sum_{nullptr, nullptr};      ///< null: steps have one piece
  Queue::Memory squares_{nullptr, nullptr};  ///< of the gradient's rows
  Queue::Memory figures_{nullptr, nullptr};  ///< StepFigures
  std::optional<Lists> lists_;               ///< if it is trained
  std::size_t bytes_ = 0;
};

}  // namespace starling::compute::cuda
