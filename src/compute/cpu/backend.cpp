#include "compute/cpu/backend.hpp"

#include <utility>

#include <omp.h>
#include <oneapi/dnnl/dnnl.hpp>

#include "compute/cpu/gemm.hpp"
#include "compute/cpu/planner.hpp"
#include "compute/cpu/program.hpp"

namespace starling::compute::cpu {

using base::ErrorCode;
using base::fail;

namespace {

class CpuBackend final : public Backend {
 public:
  base::Result<std::unique_ptr<Program>> compile(const Graph& graph,
                                                 const CompileOptions& options) override {
    const std::uint32_t batch = options.batch;
    const std::uint32_t threads = options.threads;
    if (batch == 0 || batch > kBatchMax) {
      return fail(ErrorCode::run_file, "batch is {}; it must be 1 to {}", batch, kBatchMax);
    }
    if (threads == 0 || threads > kThreadsMax) {
      return fail(ErrorCode::run_file, "threads is {}; it must be 1 to {}", threads, kThreadsMax);
    }
    // oneDNN plans its primitives for the number of threads that is set when they are created.
    omp_set_num_threads(static_cast<int>(threads));
    try {
      Plan plan = Planner(graph, options).plan();
      if (!plan.allocate()) {
        return fail(ErrorCode::device,
                    "{} MB of memory for the model's activations are not available: make "
                    "train.batch ({}) smaller",
                    plan.arena_plan().bytes / 1'000'000, batch);
      }
      return std::make_unique<CpuProgram>(graph, batch, threads, std::move(plan));
    } catch (const dnnl::error& error) {
      return fail(ErrorCode::device, "oneDNN cannot compile this model for the cpu: {} (status {})",
                  error.what(), static_cast<int>(error.status));
    } catch (const std::bad_alloc&) {
      return fail(ErrorCode::device, "out of memory while the model was compiled for the cpu");
    }
  }

  bool has_bfloat16() const noexcept override { return cpu::has_bfloat16(); }

 private:
  static constexpr std::uint32_t kThreadsMax = 1024;
};

}  // namespace

std::unique_ptr<Backend> make_backend() { return std::make_unique<CpuBackend>(); }

}  // namespace starling::compute::cpu
