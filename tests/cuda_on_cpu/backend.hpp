// The CUDA backend's plans and kernels on the processor: everything of it that is not CUDA itself
// is held to the same claims where there is no GPU.
#pragma once

#include <memory>

#include "compute/program.hpp"

namespace starling::cuda_on_cpu {

[[nodiscard]] std::unique_ptr<compute::Backend> make_backend();

}  // namespace starling::cuda_on_cpu
