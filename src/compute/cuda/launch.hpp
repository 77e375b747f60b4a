// Starts our own kernels on a GPU's stream. Compiled by nvcc; nothing else is.
#pragma once

#include <cuda_runtime_api.h>

#include "compute/cuda/work.hpp"

namespace starling::compute::cuda {

/// Error: the launch's own; what goes wrong in the kernel shows at a later call.
[[nodiscard]] cudaError_t launch(const KernelWork& work, cudaStream_t stream);

}  // namespace starling::compute::cuda
