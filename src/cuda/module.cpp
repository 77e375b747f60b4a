// The CUDA module's entry: finds GPUs, and makes the backend of one.
#include "compute/module.hpp"

#include <exception>
#include <utility>

#include "cuda/device/gpu_queue.hpp"
#include "cuda/libraries/checked.hpp"
#include "cuda/plans/program.hpp"
#include "module_generated.h"

namespace starling::compute::cuda {

using base::ErrorCode;
using base::fail;
using base::Result;
using base::Status;

namespace {

/// The least compute capability for which the kernels are compiled: meson.build.
constexpr int kCapabilityMin = 8;

/// The backend of one GPU. Each compiled program has its own queue, and may outlive the backend.
class CudaBackend final : public Backend {
 public:
  explicit CudaBackend(int device) : device_(device) {}

  Result<std::unique_ptr<Program>> compile(const Graph& graph,
                                           const CompileOptions& options) override {
    try {
      auto queue = GpuQueue::create(device_);
      if (!queue) return fail(queue.error());
      return cuda::compile(graph, options, std::move(*queue));
    } catch (const std::exception& error) {  // this machine is out of memory, or a library failed
      return fail(ErrorCode::device, "the model could not be compiled for cuda:{}: {}", device_,
                  error.what());
    }
  }

  bool has_bfloat16() const noexcept override { return true; }

 private:
  int device_;
};

/// "13.0", as CUDA numbers versions.
std::string version_of(int number) {
  return fmt::format("{}.{}", number / 1000, number % 1000 / 10);
}

/// Number of GPUs, or why none can be used.
Result<int> count_gpus() {
  int count = 0;
  const cudaError_t answer = cudaGetDeviceCount(&count);
  if (answer == cudaSuccess) return count;
  int driver = 0;
  static_cast<void>(cudaDriverGetVersion(&driver));
  if (answer == cudaErrorInsufficientDriver && driver == 0) {
    return fail(ErrorCode::device,
                "there is no NVIDIA driver on this machine: install one for CUDA {} or newer, or "
                "set train.device to \"cpu\"",
                version_of(CUDART_VERSION));
  }
  if (answer == cudaErrorInsufficientDriver) {
    return fail(ErrorCode::device,
                "the NVIDIA driver is too old: it knows CUDA {}, this build needs {}: install a "
                "newer driver, or set train.device to \"cpu\"",
                version_of(driver), version_of(CUDART_VERSION));
  }
  if (answer == cudaErrorNoDevice) return 0;
  return fail(checked(answer, "looking for GPUs").error());
}

Result<OpenedGpu> open_gpu_number(unsigned index) {
  const auto count = count_gpus();
  if (!count) return fail(count.error());
  if (*count == 0) {
    return fail(ErrorCode::device,
                "the NVIDIA driver finds no GPU (see nvidia-smi, and CUDA_VISIBLE_DEVICES): set "
                "train.device to \"cpu\"");
  }
  if (index >= static_cast<unsigned>(*count)) {
    return fail(ErrorCode::device,
                "there is no cuda:{}: this machine has {} GPU{}, the last one is cuda:{}", index,
                *count, *count == 1 ? "" : "s", *count - 1);
  }
  const int device = static_cast<int>(index);
  cudaDeviceProp properties{};
  if (auto done = checked(cudaGetDeviceProperties(&properties, device), "asking what the GPU is");
      !done) {
    return fail(done.error());
  }
  if (properties.major < kCapabilityMin) {
    return fail(ErrorCode::device,
                "cuda:{} ({}) has compute capability {}.{}; this build has code for {}.0 and newer",
                index, properties.name, properties.major, properties.minor, kCapabilityMin);
  }
  std::size_t free = 0;
  std::size_t total = 0;
  auto done = checked(cudaSetDevice(device), "choosing the GPU");
  if (done) done = checked(cudaMemGetInfo(&free, &total), "asking how much memory is free");
  if (!done) return fail(done.error());
  return OpenedGpu{std::make_unique<CudaBackend>(device),
                   fmt::format("{}, {:.0f} of {:.0f} GB free", properties.name,
                               static_cast<double>(free) / 1e9, static_cast<double>(total) / 1e9)};
}

}  // namespace
}  // namespace starling::compute::cuda

extern "C" __attribute__((visibility("default"))) const starling::compute::Module*
starling_cuda_module() {
  static constexpr starling::compute::Module kModule{
      .build = kModuleBuild, .open = &starling::compute::cuda::open_gpu_number};
  return &kModule;
}
