#include "compute/cuda/module.hpp"
#include "module_generated.h"

using namespace starling;

extern "C" const compute::cuda::Module* starling_cuda_module() {
  static constexpr compute::cuda::Module kModule{
      .build = kModuleBuild, .open = [](unsigned index) -> base::Result<compute::cuda::OpenedGpu> {
        return base::fail(base::ErrorCode::device, "there is no GPU {}", index);
      }};
  return &kModule;
}
