#include "compute/module.hpp"
#include "module_generated.h"

using namespace starling;

extern "C" const compute::Module* starling_cuda_module() {
  static constexpr compute::Module kModule{
      .build = kModuleBuild, .open = [](unsigned index) -> base::Result<compute::OpenedGpu> {
        return base::fail(base::ErrorCode::device, "there is no GPU {}", index);
      }};
  return &kModule;
}
