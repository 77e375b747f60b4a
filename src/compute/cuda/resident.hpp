// A replica that lives with its program, and its training there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "compute/cuda/device_replica.hpp"
#include "compute/cuda/runner.hpp"
#include "compute/cuda/update.hpp"
#include "compute/resident.hpp"

namespace starling::compute::cuda {

/// nats a label, or mean squared difference
[[nodiscard]] inline float mean_loss(const Evaluation& sums) {
  return static_cast<float>(sums.loss_sum / static_cast<double>(sums.count));
}

class CudaResident final : public Resident {
 public:
  /// `runner` outlives it.
  [[nodiscard]] static base::Result<std::unique_ptr<CudaResident>> create(Runner& runner,
                                                                          const Residence& wanted);

  ReplicaMemory& replica() noexcept override { return *replica_; }
  base::Result<float> forward_backward(std::span<float> buffers, const Batch& batch,
                                       std::uint64_t seed, Share share, const Batch* next) override;
  base::Result<double> gradient_squares() override;
  base::Status update(const SgdUpdate& by) override;
  base::Status update(const AdamUpdate& by) override;
  base::Status read_state(std::size_t which, std::span<float> to) override;
  base::Status write_state(std::size_t which, std::span<const float> from) override;
  base::Status hold_still() override;
  base::Result<Evaluation> evaluate(std::span<const float> buffers, const Batch& batch) override;
  base::Result<std::span<const float>> outputs(std::span<const float> buffers,
                                               const Batch& batch) override;

  [[nodiscard]] std::size_t memory_bytes() const noexcept;

 private:
  explicit CudaResident(Runner& runner) : runner_(runner) {}

  [[nodiscard]] base::Status reserve(const Residence& wanted);
  [[nodiscard]] base::Result<Queue::Memory> allocate(std::size_t bytes, const char* what);
  [[nodiscard]] base::Status spread(const float* r);
  [[nodiscard]] TensorPlaces tensors() const;
  /// What is applied: the sum where a step has several pieces.
  [[nodiscard]] float* gradient() const;
  [[nodiscard]] std::size_t gradient_size() const { return runner_.layout().count; }
  [[nodiscard]] float* state(std::size_t which) const;

  Runner& runner_;
  std::unique_ptr<DeviceReplica> replica_;
  Queue::Memory places_{nullptr, nullptr};
  std::size_t tensor_count_ = 0;
  std::vector<Queue::Memory> states_;
  Queue::Memory sum_{nullptr, nullptr};    ///< null: steps have one piece
  Queue::Memory parts_{nullptr, nullptr};  ///< of the gradient's squares
  std::size_t bytes_ = 0;
  std::vector<double> squares_;
};

}  // namespace starling::compute::cuda
