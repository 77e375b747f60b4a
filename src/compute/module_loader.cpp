#include "compute/module_loader.hpp"

#include <cstdlib>
#include <string_view>
#include <system_error>

#include <dlfcn.h>

#include "module_generated.h"

namespace starling::compute {

namespace fs = std::filesystem;

using base::ErrorCode;
using base::fail;
using base::Result;

namespace {

#ifdef STARLING_WITH_CUDA
constexpr bool kBuilt = true;
#else
constexpr bool kBuilt = false;
#endif

constexpr char kVariable[] = "STARLING_CUDA_MODULE";

fs::path own_folder() {
  std::error_code ignored;
  return fs::read_symlink("/proc/self/exe", ignored).parent_path();
}

Result<fs::path> find_module() {
  if (const char* const named = std::getenv(kVariable); named != nullptr && *named != '\0') {
    return fs::path(named);
  }
  if (!kBuilt) {
    return fail(ErrorCode::device,
                "this build has no CUDA module, since nvcc, CUDA 13 or cuDNN 9 was not there when "
                "it was configured: install them and build again, or set train.device to \"cpu\"");
  }
  std::string looked;
  for (const fs::path& place : module_places(own_folder())) {
    std::error_code ignored;
    if (fs::exists(place, ignored)) return place;
    looked += (looked.empty() ? "" : ", ") + place.string();
  }
  return fail(ErrorCode::device,
              "the CUDA module is not there: looked for {}. Put {} beside the program, or name the "
              "file in {}",
              looked, kModuleFile, kVariable);
}

}  // namespace

std::vector<fs::path> module_places(const fs::path& folder) {
  std::vector<fs::path> places{folder / kModuleFile,
                               folder.parent_path() / "lib" / "starling" / kModuleFile};
  // A build folder has programs one to four folders deep.
  fs::path above = folder;
  for (int depth = 0; depth < 4; ++depth) {
    above = above.parent_path();
    places.push_back(above / "src" / "cuda" / kModuleFile);
  }
  return places;
}

Result<const Module*> load_module(const fs::path& file) {
  // Local: the module's libraries must not replace symbols of the program. Never closed: a
  // backend's code must outlive it, and CUDA does not unload well.
  void* const library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const why = dlerror();
    return fail(ErrorCode::device,
                "the CUDA module cannot be loaded: {}. It needs cuDNN 9 and cuBLAS 13 where the "
                "loader finds them (ldconfig, or LD_LIBRARY_PATH)",
                why == nullptr ? file.c_str() : why);
  }
  const auto entry = reinterpret_cast<ModuleEntry>(dlsym(library, kModuleSymbol));
  if (entry == nullptr) {
    return fail(ErrorCode::device, "{} is not a CUDA module of starling: it lacks {}", file.c_str(),
                kModuleSymbol);
  }
  const Module* const module = entry();
  if (std::string_view(module->build) != kModuleBuild) {
    return fail(ErrorCode::device,
                "the CUDA module {} is of another build ({}, the program is {}): build both "
                "together",
                file.c_str(), module->build, kModuleBuild);
  }
  return module;
}

Result<OpenedGpu> open_gpu(unsigned index) {
  const auto file = find_module();
  if (!file) return fail(file.error());
  const auto module = load_module(*file);
  if (!module) return fail(module.error());
  return (*module)->open(index);
}

}  // namespace starling::compute
