// The UCX module: a separate shared library, so that the program starts without UCX, or with a UCX
// that would abort it.
#pragma once

#include <memory>

#include "base/result.hpp"
#include "io/ucx/engine.hpp"
#include "io/ucx/versions.hpp"

namespace starling::io::ucx {

inline constexpr char kModuleFile[] = "starling_ucx.so";
/// The one symbol of the module: a ModuleEntry, with C linkage.
inline constexpr char kModuleSymbol[] = "starling_ucx_module";

/// The module's functions. `build` stays the first field forever: the other fields are used only if
/// it is the program's own build (kUcxModuleBuild).
struct Module {
  const char* build = nullptr;
  Version version{};  ///< of the loaded UCX
  /// Errors (network): no such interface, the address is not the interface's own, no port is free,
  /// or the filter cannot be set.
  base::Result<std::unique_ptr<Engine>> (*start)(const FabricConfig& config) = nullptr;
};

/// Returns a structure that lives as long as the module.
using ModuleEntry = const Module* (*)();

}  // namespace starling::io::ucx
