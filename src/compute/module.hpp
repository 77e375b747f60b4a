// What the program and the CUDA module know of each other. The module is a shared library of its
// own, so that the program starts where there is no driver, no GPU and no CUDA.
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

/// The module's functions. `build` stays the first field for ever: only where it is the program's
/// own (kModuleBuild) is anything else looked at.
struct Module {
  const char* build = nullptr;
  /// GPU number `index`. Errors (ErrorCode::device): no driver, one that is too old, no such GPU,
  /// one that the module has no code for.
  base::Result<OpenedGpu> (*open)(unsigned index) = nullptr;
};

/// Gives a structure that lives as long as the module.
using ModuleEntry = const Module* (*)();

}  // namespace starling::compute
