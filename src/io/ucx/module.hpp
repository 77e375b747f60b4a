// The UCX module: a shared library of its own, so that the program starts where there is no UCX,
// or one that would abort it.
#pragma once

#include <memory>

#include "base/result.hpp"
#include "io/ucx/engine.hpp"
#include "io/ucx/versions.hpp"

namespace starling::io::ucx {

inline constexpr char kModuleFile[] = "starling_ucx.so";
/// The one symbol of the module: a ModuleEntry, with C linkage.
inline constexpr char kModuleSymbol[] = "starling_ucx_module";

/// The module's functions. `build` stays the first field for ever: only where it is the program's
/// own (kUcxModuleBuild) is anything else looked at.
struct Module {
  const char* build = nullptr;
  Version version{};  ///< of the UCX that was loaded
  /// Errors (network): no such interface, the address is not its own, no port is free; the filter
  /// of who may connect cannot be put on.
  base::Result<std::unique_ptr<Engine>> (*start)(const FabricConfig& config) = nullptr;
};

/// Gives a structure that lives as long as the module.
using ModuleEntry = const Module* (*)();

}  // namespace starling::io::ucx
