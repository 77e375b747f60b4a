#include "io/ucx/module.hpp"

#include <utility>

#include <ucp/api/ucp.h>

#include "io/ucx/ucx_engine.hpp"
#include "io/ucx/worker.hpp"
#include "ucx_module_generated.h"

namespace {

using namespace starling;

base::Result<std::unique_ptr<io::ucx::Engine>> start(const io::ucx::FabricConfig& config) {
  auto engine = io::ucx::UcxEngine::start(config);
  if (!engine) return base::fail(std::move(engine.error()));
  return std::unique_ptr<io::ucx::Engine>(std::move(*engine));
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const starling::io::ucx::Module*
starling_ucx_module() {
  static const starling::io::ucx::Module module = [] {
    io::ucx::silence_ucx();
    io::ucx::Version loaded;
    ucp_get_version(&loaded.major, &loaded.minor, &loaded.release);
    return io::ucx::Module{kUcxModuleBuild, loaded, start};
  }();
  return &module;
}
