// The interface between the program and the CUDA module. The module is a separate shared library,
// so that the program starts without a driver, a GPU or CUDA.
#pragma once

#include <memory>
#include <string>

#include "base/result.hpp"
#include "compute/program.hpp"

namespace starling::compute {

inline constexpr char kModuleFile[] = "starling_cuda.so";
/// The one symbol of the module: a ModuleEntry, with C linkage.
inline constexpr char kModuleSymbol[] = "starling_cuda_module";

/// A GPU that was opened.
struct OpenedGpu {
  std::unique_ptr<Backend> backend;
  std::string about;  ///< "NVIDIA H100 80GB HBM3, 79 of 80 GB free"
};

/// The module's functions. `build` stays the first field forever: the other fields are used only if
/// it is the program's own build (kModuleBuild).
struct Module {
  const char* build = nullptr;
  /// Opens GPU number `index`. Errors (ErrorCode::device): no driver, a driver that is too old, no
  /// such GPU, or a GPU for which the module has no code.
  base::Result<OpenedGpu> (*open)(unsigned index) = nullptr;
};

/// Returns a structure that lives as long as the module.
using ModuleEntry = const Module* (*)();

}  // namespace starling::compute
