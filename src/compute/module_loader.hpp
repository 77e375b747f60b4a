// Finds and loads the CUDA module. Part of the program: knows nothing of CUDA.
#pragma once

#include <filesystem>
#include <vector>

#include "base/result.hpp"
#include "compute/module.hpp"

namespace starling::compute {

/// Where the module may lie for a program in `folder`: beside it, at its installed place, and in
/// the build folder.
[[nodiscard]] std::vector<std::filesystem::path> module_places(const std::filesystem::path& folder);

/// Loads one file, for the process's life. Errors (ErrorCode::device): a library that it needs is
/// missing, or it is not a module, or is one of another build.
[[nodiscard]] base::Result<const Module*> load_module(const std::filesystem::path& file);

/// Opens GPU number `index` with the module that belongs to this program; the environment variable
/// STARLING_CUDA_MODULE names another file. Errors: those of load_module and Module::open, and if
/// there is no module.
[[nodiscard]] base::Result<OpenedGpu> open_gpu(unsigned index);

}  // namespace starling::compute
