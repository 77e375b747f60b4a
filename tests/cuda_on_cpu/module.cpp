// A module that replaces the CUDA module: its "cuda:0" is the processor. Tests run real peers with
// it, which then believe that their replicas are in a device's memory.
#include "compute/module.hpp"

#include <cstdlib>
#include <string>

#include "backend.hpp"
#include "module_generated.h"

namespace {

namespace compute = starling::compute;

starling::base::Result<compute::OpenedGpu> open(unsigned index) {
  if (index > 0) {
    return starling::base::fail(starling::base::ErrorCode::device, "there is no cuda:{}", index);
  }
  // Where a test says so, the device has too little memory, or cannot record.
  const auto bytes_of = [](const char* name) {
    const char* const bytes = std::getenv(name);
    return bytes == nullptr ? ~std::size_t{0} : std::stoull(bytes);
  };
  const char* const recording = std::getenv("STARLING_TEST_RECORDING");
  return compute::OpenedGpu{starling::cuda_on_cpu::make_backend(
                                nullptr, {.piece_max = bytes_of("STARLING_TEST_PIECE_MAX"),
                                          .room = bytes_of("STARLING_TEST_ROOM"),
                                          .recording = recording == nullptr ? "" : recording}),
                            "no GPU: the processor, slowly"};
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const starling::compute::Module*
starling_cuda_module() {
  static constexpr compute::Module kModule{.build = kModuleBuild, .open = &open};
  return &kModule;
}
