// The CUDA backend's plans and kernels on the processor: everything of it that is not CUDA itself
// is held to the same claims where there is no GPU.
#pragma once

#include <memory>

#include "compute/program.hpp"

namespace starling::conformance {

/// What the tests call this device.
inline constexpr char kHostDevice[] = "cuda_plan_on_cpu";

[[nodiscard]] std::unique_ptr<compute::Backend> make_host_backend();

}  // namespace starling::conformance
