// Finds and loads the UCX module. Part of the program: knows nothing of UCX.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "io/ucx/module.hpp"

namespace starling::io::ucx {

/// UCX's library aborts the process while it is loaded if its buffer for the host's name is short.
inline constexpr std::size_t kHostNameMax = 63;

/// Like getenv().
using Environment = std::function<const char*(const char*)>;

/// Why UCX must not be loaded into this process, because it would abort it; nothing if it may be
/// loaded.
[[nodiscard]] std::optional<std::string> why_not_load(std::string_view host_name,
                                                      const Environment& environment);

/// Where the module may lie for a program or library in `folder`: beside it, at its installed
/// place, and in the build folder.
[[nodiscard]] std::vector<std::filesystem::path> module_places(const std::filesystem::path& folder);

/// The file that ucx_module() will load. Errors (network): it would not load any, as far as this
/// can be told without trying. Any thread.
[[nodiscard]] base::Result<std::filesystem::path> module_to_load();

/// Loads one file, for the process's life. Errors (network): UCX is not installed, or the file is
/// not a module, or is one of another build.
[[nodiscard]] base::Result<const Module*> load_module(const std::filesystem::path& file);

/// The module that belongs to this program, loaded at the first call, in 20 ms to half a second;
/// the environment variable STARLING_UCX_MODULE names another file. Errors: those of load_module
/// and why_not_load, and if there is no module; later calls return the same. Any thread.
[[nodiscard]] base::Result<const Module*> ucx_module();

}  // namespace starling::io::ucx
