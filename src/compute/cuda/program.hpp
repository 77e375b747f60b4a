// A plan that runs on a queue: parameters in, losses and gradients out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "compute/cuda/plan.hpp"
#include "compute/cuda/planner.hpp"
#include "compute/cuda/queue.hpp"
#include "compute/program.hpp"

namespace starling::compute::cuda {

/// Compiles a graph for the queue's device. Errors: as Backend::compile.
[[nodiscard]] base::Result<std::unique_ptr<Program>> compile(const Graph& graph,
                                                             const CompileOptions& options,
                                                             std::unique_ptr<Queue> queue,
                                                             std::size_t score_bytes = kScoreBytes);

/// Program over a queue. Every call copies the parameters and what belongs to the batch to the
/// device, runs one list of work, and copies back what it made.
class CudaProgram final : public Program {
 public:
  /// `queue` has the plan's memory and lists.
  CudaProgram(const Graph& graph, std::uint32_t batch, Plan plan, std::vector<std::size_t> offsets,
              std::byte* arena, std::size_t training, std::size_t evaluation,
              std::unique_ptr<Queue> queue);

  base::Result<float> forward_backward(std::span<const float> parameters, std::span<float> buffers,
                                       const Batch& batch, std::uint64_t seed,
                                       std::span<float> gradient) override;
  base::Result<Evaluation> evaluate(std::span<const float> parameters,
                                    std::span<const float> buffers, const Batch& batch) override;
  base::Result<std::span<const float>> outputs(std::span<const float> parameters,
                                               std::span<const float> buffers,
                                               const Batch& batch) override;
  std::uint32_t batch() const noexcept override { return batch_; }
  std::size_t memory_bytes() const noexcept override { return queue_->memory_bytes(); }

 private:
  /// Everything in front of a list of work, and the list.
  base::Status run(std::size_t list, std::span<const float> parameters,
                   std::span<const float> buffers, const Batch& batch, std::uint64_t seed);
  base::Status load(const Batch& batch, std::uint64_t seed);
  base::Status load_tokens(std::span<const std::int32_t> tokens);
  template <class T>
  base::Status copy_in(const Value& to, std::span<const T> from);
  base::Status copy_in(const Value& to, const Layout& layout, std::span<const float> from);
  base::Status copy_out(const Value& from, const Layout& layout, std::span<float> to);
  base::Result<Evaluation> totals();
  [[nodiscard]] std::byte* at(const Value& value) const;

  const bool takes_tokens_;
  const bool by_label_;
  const std::size_t parameter_count_;
  const std::size_t buffer_count_;
  const std::size_t input_elements_;   ///< a sample
  const std::size_t output_elements_;  ///< a sample
  const std::size_t positions_;        ///< labels a sample
  const std::uint32_t batch_;
  const Plan plan_;
  const std::vector<std::size_t> offsets_;
  std::byte* const arena_;
  const std::size_t training_;  ///< lists of the queue
  const std::size_t evaluation_;
  std::unique_ptr<Queue> queue_;
  std::size_t count_ = 0;             ///< samples of the last batch
  std::vector<std::uint64_t> order_;  ///< tokens and their places, sorted
  std::vector<std::int32_t> integers_;
  std::vector<float> outputs_;
};

}  // namespace starling::compute::cuda
