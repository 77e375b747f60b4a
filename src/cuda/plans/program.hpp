// A plan that runs on a queue: parameters in, losses and gradients out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "compute/program.hpp"
#include "cuda/device/queue.hpp"
#include "cuda/device/resident.hpp"
#include "cuda/plans/planner.hpp"
#include "cuda/plans/runner.hpp"

namespace starling::compute::cuda {

/// Compiles a graph for the queue's device. Errors: those of Backend::compile.
[[nodiscard]] base::Result<std::unique_ptr<Program>> compile(const Graph& graph,
                                                             const CompileOptions& options,
                                                             std::unique_ptr<Queue> queue,
                                                             std::size_t score_bytes = kScoreBytes);

/// Program over a queue. Calls with parameters copy them to the device, run one list of work, and
/// copy its results back; a resident replica has its own parameters there.
class CudaProgram final : public Program {
 public:
  explicit CudaProgram(std::unique_ptr<Runner> runner) : runner_(std::move(runner)) {}

  base::Result<float> forward_backward(std::span<const float> parameters, std::span<float> buffers,
                                       const Batch& batch, std::uint64_t seed,
                                       std::span<float> gradient) override;
  base::Result<Evaluation> evaluate(std::span<const float> parameters,
                                    std::span<const float> buffers, const Batch& batch) override;
  base::Result<std::span<const float>> outputs(std::span<const float> parameters,
                                               std::span<const float> buffers,
                                               const Batch& batch) override;
  base::Result<Resident*> move_to_device(const Residence& wanted) override;
  std::uint32_t batch() const noexcept override { return runner_->batch(); }
  std::size_t memory_bytes() const noexcept override;
  std::vector<std::string> slow_ops() const override;
  std::optional<std::string> slow_steps() const override;

 private:
  base::Status run_evaluation(std::span<const float> parameters, std::span<const float> buffers,
                              const Batch& batch);

  std::unique_ptr<Runner> runner_;
  std::unique_ptr<CudaResident> resident_;
};

}  // namespace starling::compute::cuda
