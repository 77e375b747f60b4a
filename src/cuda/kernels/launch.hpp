// Starts our own kernels on a GPU's stream.
#pragma once

#include <cstddef>

#include <cuda_runtime_api.h>

#include "cuda/kernels/work.hpp"

namespace starling::compute::cuda {

/// Loads all of them to the current GPU. CUDA does so at a kernel's first launch otherwise, when
/// there may be no memory left for it.
[[nodiscard]] cudaError_t load_kernels();
/// Error: the launch's own; what goes wrong in the kernel shows at a later call.
[[nodiscard]] cudaError_t launch(const KernelWork& work, cudaStream_t stream);

/// nvcc compiles kernels, and nothing else, in so many parts side by side: each has those whose
/// place in Kernel leaves the part's number.
inline constexpr std::size_t kKernelParts = 4;
template <std::size_t part>
struct KernelPart {
  [[nodiscard]] static cudaError_t load();
  [[nodiscard]] static cudaError_t launch(const KernelWork& work, cudaStream_t stream);
};

}  // namespace starling::compute::cuda
