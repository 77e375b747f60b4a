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

/// As getenv().
using Environment = std::function<const char*(const char*)>;

/// Why UCX must not be loaded into this process, which it would abort; nothing if it may be.
[[nodiscard]] std::optional<std::string> why_not_load(std::string_view host_name,
                                                      const Environment& environment);

/// Where the module may lie for a program or library in `folder`: beside it, where an installation
/// has it, and in the build folder.
[[nodiscard]] std::vector<std::filesystem::path> module_places(const std::filesystem::path& folder);

/// The file that ucx_module() loads, before it does. Errors (network): it would load none, as far
/// as that can be said without trying. Any thread.
[[nodiscard]] base::Result<std::filesystem::path> module_to_load();

/// Loads one file, for as long as the process lives. Errors (network): UCX is not installed, the
/// file is no module, or one of another build.
[[nodiscard]] base::Result<const Module*> load_module(const std::filesystem::path& file);

/// The module that belongs to this program, loaded at the first call, in 20 ms to half a second;
/// the environment variable STARLING_UCX_MODULE names another file. Errors as of load_module, where
/// there is no module, and as of why_not_load; they stay what they are. Any thread.
[[nodiscard]] base::Result<const Module*> ucx_module();

}  // namespace starling::io::ucx
