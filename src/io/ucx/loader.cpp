#include "io/ucx/loader.hpp"

#include <algorithm>
#include <array>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <system_error>

#include <dlfcn.h>
#include <strings.h>
#include <unistd.h>

#include "ucx_module_generated.h"

namespace starling::io::ucx {

namespace fs = std::filesystem;

namespace {

constexpr char kVariable[] = "STARLING_UCX_MODULE";

// UCX reads them while it is loaded, and aborts on values that it rejects.
constexpr std::array kRiskyVariables{"UCX_LOG_FILE_SIZE", "UCX_LOG_FILE_ROTATE", "UCX_LOG_BUFFER",
                                     "UCX_PROFILE_MODE", "UCX_PROFILE_FILE"};
constexpr std::array kLogLevels{"fatal", "error", "warn", "diag",  "info", "debug",
                                "trace", "req",   "data", "async", "func", "poll"};

/// UCX takes these signals of the program (this one, or one that embeds it) when it is loaded: then
/// a closed terminal would only raise UCX's log level, and UCX would report crashes. They are
/// restored.
class KeptSignals {
 public:
  KeptSignals() {
    for (std::size_t i = 0; i < kNumbers.size(); ++i) sigaction(kNumbers[i], nullptr, &before_[i]);
  }
  KeptSignals(const KeptSignals&) = delete;
  KeptSignals& operator=(const KeptSignals&) = delete;
  ~KeptSignals() {
    for (std::size_t i = 0; i < kNumbers.size(); ++i) sigaction(kNumbers[i], &before_[i], nullptr);
  }

 private:
  static constexpr std::array kNumbers{SIGHUP, SIGILL, SIGBUS, SIGFPE, SIGSEGV};
  std::array<struct sigaction, kNumbers.size()> before_{};
};

/// The folder of the program or library that this code is in.
fs::path own_folder() {
  Dl_info info;
  std::error_code ignored;
  // The address of this file's own symbol, not of one that a library may have put in front of it.
  if (dladdr(&kVariable, &info) != 0 && info.dli_fname != nullptr) {
    const fs::path file = fs::canonical(info.dli_fname, ignored);
    if (!file.empty()) return file.parent_path();
  }
  return fs::read_symlink("/proc/self/exe", ignored).parent_path();
}

bool is_writable(const std::string& path) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) return false;
  if (access(path.c_str(), F_OK) == 0) return access(path.c_str(), W_OK) == 0;
  const std::string folder = fs::path(path).parent_path().string();
  return access(folder.empty() ? "." : folder.c_str(), W_OK | X_OK) == 0;
}

/// UCX_LOG_FILE as UCX reads it: "stdout", "stderr", "NAME" or "file:NAME", with further fields
/// after a colon. For a name with placeholders, such as the process's number, the folder is
/// checked.
bool takes_log(std::string_view file) {
  if (file.starts_with("file:")) file.remove_prefix(5);
  std::string name(file.substr(0, file.find(':')));
  if (name.empty() || name == "stdout" || name == "stderr") return true;
  if (name.find('%') != std::string::npos) name = (fs::path(name).parent_path() / "log").string();
  return is_writable(name);
}

base::Result<fs::path> find_module() {
  if (const char* const named = std::getenv(kVariable); named != nullptr && *named != '\0') {
    return fs::path(named);
  }
  const std::vector<fs::path> places = module_places(own_folder());
  std::error_code ignored;
  const auto found = std::ranges::find_if(
      places, [&](const fs::path& place) { return fs::exists(place, ignored); });
  if (found != places.end()) return *found;
  return base::fail(base::ErrorCode::network,
                    "UCX's module is not there: put {} into {}, or name the file in {}",
                    kModuleFile, places.front().parent_path().string(), kVariable);
}

base::Result<const Module*> find_and_load() {
  const auto file = module_to_load();
  if (!file) return base::fail(file.error());
  return load_module(*file);
}

}  // namespace

std::optional<std::string> why_not_load(std::string_view host_name,
                                        const Environment& environment) {
  if (host_name.size() > kHostNameMax) {
    return fmt::format(
        "UCX cannot be used on a host whose name has more than {} characters: it "
        "would abort the program; give the host a shorter name",
        kHostNameMax);
  }
  const char* const level = environment("UCX_LOG_LEVEL");
  if (level != nullptr && std::ranges::none_of(kLogLevels, [&](const char* known) {
        return strcasecmp(known, level) == 0;
      })) {
    return fmt::format(
        "UCX would abort the program: UCX_LOG_LEVEL is \"{}\", which it does not "
        "know; \"info\" is one that it does",
        level);
  }
  const char* const log = environment("UCX_LOG_FILE");
  if (log != nullptr && !takes_log(log)) {
    return fmt::format(
        "UCX would abort the program: UCX_LOG_FILE is \"{}\", which cannot be "
        "written",
        log);
  }
  for (const char* const variable : kRiskyVariables) {
    if (environment(variable) == nullptr) continue;
    return fmt::format(
        "UCX is not loaded while {} is set, since some of its values make it abort "
        "the program: unset it",
        variable);
  }
  return std::nullopt;
}

std::vector<fs::path> module_places(const fs::path& folder) {
  std::vector<fs::path> places{folder / kModuleFile, folder / "starling" / kModuleFile,
                               folder.parent_path() / "lib" / "starling" / kModuleFile};
  // A build folder has programs one to four folders deep.
  fs::path above = folder;
  for (int depth = 0; depth < 4; ++depth) {
    above = above.parent_path();
    places.push_back(above / "src" / "io" / "ucx" / kModuleFile);
  }
  return places;
}

base::Result<const Module*> load_module(const fs::path& file) {
  // Otherwise UCX, while it is loaded, overwrites the code of mmap, sbrk and others in libc, while
  // other threads may be running it: one load in several hundred left malloc locked forever. UCX
  // does this to learn when memory goes that it has registered with a network card; without it, UCX
  // registers memory for each send.
  setenv("UCX_MEM_EVENTS", "n", 0);
  // Local: the module's libraries must not replace symbols of the program. Never closed: UCX has
  // its own threads and handlers.
  void* const library = [&] {
    const KeptSignals kept;
    return dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  }();
  if (library == nullptr) {
    const char* const why = dlerror();
    return base::fail(base::ErrorCode::network,
                      "UCX cannot be loaded: {}. Install UCX (Debian's libucx0), or put its "
                      "libraries where the loader finds them (ldconfig, or LD_LIBRARY_PATH)",
                      why == nullptr ? file.c_str() : why);
  }
  const auto entry = reinterpret_cast<ModuleEntry>(dlsym(library, kModuleSymbol));
  if (entry == nullptr) {
    return base::fail(base::ErrorCode::network, "{} is not a UCX module of starling: it lacks {}",
                      file.c_str(), kModuleSymbol);
  }
  const Module* const module = entry();
  if (std::string_view(module->build) != kUcxModuleBuild) {
    return base::fail(base::ErrorCode::network,
                      "the UCX module {} is of another build ({}, the program is {}): build both "
                      "together",
                      file.c_str(), module->build, kUcxModuleBuild);
  }
  return module;
}

base::Result<fs::path> module_to_load() {
  std::array<char, HOST_NAME_MAX + 1> host{};
  static_cast<void>(gethostname(host.data(), host.size() - 1));
  if (const auto why =
          why_not_load(host.data(), [](const char* name) { return std::getenv(name); })) {
    return base::fail(base::ErrorCode::network, "{}", *why);
  }
  return find_module();
}

base::Result<const Module*> ucx_module() {
  static const base::Result<const Module*> module = find_and_load();
  return module;
}

}  // namespace starling::io::ucx
