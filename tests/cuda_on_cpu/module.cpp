// A module for the program in place of the CUDA module: its "cuda:0" is the processor. Tests run
// real peers with it, which then have their replicas in a device's memory as far as they can tell.
#include "compute/cuda/module.hpp"

#include <cstdlib>
#include <string>

#include "backend.hpp"
#include "module_generated.h"

namespace {

namespace cuda = starling::compute::cuda;

starling::base::Result<cuda::OpenedGpu> open(unsigned index) {
  if (index > 0) {
    return starling::base::fail(starling::base::ErrorCode::device, "there is no cuda:{}", index);
  }
  // Where a test says how much: no piece of memory has more.
  const char* const bytes = std::getenv("STARLING_TEST_PIECE_MAX");
  const std::size_t piece_max = bytes == nullptr ? ~std::size_t{0} : std::stoull(bytes);
  return cuda::OpenedGpu{starling::cuda_on_cpu::make_backend(nullptr, piece_max),
                         "no GPU: the processor, slowly"};
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const cuda::Module* starling_cuda_module() {
  static constexpr cuda::Module kModule{.build = kModuleBuild, .open = &open};
  return &kModule;
}
