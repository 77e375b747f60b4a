#include "compute/cuda/module.hpp"

extern "C" const starling::compute::cuda::Module* starling_cuda_module() {
  static constexpr starling::compute::cuda::Module kModule{.build = "0.0.1 of long ago"};
  return &kModule;
}
