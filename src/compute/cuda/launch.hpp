// Starts our own kernels on a GPU's stream. Compiled by nvcc; nothing else is.
#pragma once

#include <cuda_runtime_api.h>

#include "compute/cuda/work.hpp"

namespace starling::compute::cuda {

/// Loads all of them to the current GPU. CUDA does so at a kernel's first launch otherwise, when
/// there may be no memory left for it.
[[nodiscard]] cudaError_t load_kernels();
/// Error: the launch's own; what goes wrong in the kernel shows at a later call.
[[nodiscard]] cudaError_t launch(const KernelWork& work, cudaStream_t stream);

}  // namespace starling::compute::cuda
