// A plan that runs: parameters in, losses and gradients out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <oneapi/dnnl/dnnl.hpp>

#include "compute/cpu/loss.hpp"
#include "compute/cpu/plan.hpp"
#include "compute/program.hpp"

namespace starling::compute::cpu {

/// Program over oneDNN. Sets the number of OpenMP threads of the calling thread.
class CpuProgram final : public Program {
 public:
  /// `plan` has its memory allocated. Throws dnnl::error.
  CpuProgram(const Graph& graph, std::uint32_t batch, std::uint32_t threads, Plan plan);

  base::Result<float> forward_backward(std::span<const float> parameters, std::span<float> buffers,
                                       const Batch& batch, std::uint64_t seed,
                                       std::span<float> gradient) override;
  base::Result<Evaluation> evaluate(std::span<const float> parameters,
                                    std::span<const float> buffers, const Batch& batch) override;
  base::Result<std::span<const float>> outputs(std::span<const float> parameters,
                                               std::span<const float> buffers,
                                               const Batch& batch) override;
  std::uint32_t batch() const noexcept override { return batch_; }
  std::size_t memory_bytes() const noexcept override { return plan_.arena_plan().bytes; }

 private:
  base::Status forward(std::span<const float> parameters, std::span<const float> buffers,
                       const Batch& batch, bool training);
  base::Status run(const std::vector<Call>& calls);
  void load(const Batch& batch, BufferId input);

  const std::size_t parameter_count_;
  const std::size_t buffer_count_;
  const bool takes_tokens_;
  const std::size_t input_elements_;   ///< a sample
  const std::size_t output_elements_;  ///< a sample
  const Loss loss_;
  const std::uint32_t classes_;
  const std::uint32_t batch_;
  const std::uint32_t threads_;
  Plan plan_;
  std::vector<RowLoss> row_losses_;
  dnnl::stream stream_;
};

}  // namespace starling::compute::cpu
