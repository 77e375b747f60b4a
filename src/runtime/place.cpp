#include "runtime/place.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/core.h>
#include <unistd.h>

#include "base/file.hpp"
#include "report/peer_file.hpp"
#include "runfile/run_file.hpp"
#include "wire/messages.hpp"

namespace starling::runtime {
namespace {

using base::ErrorCode;
using base::fail;

/// The most peers of a run on one machine without given names.
constexpr int kUnnamedMax = 64;

/// It names a folder and appears in tables.
bool is_name(std::string_view text) {
  return !text.empty() && text != "." && text != ".." &&
         std::ranges::all_of(text, runfile::may_be_in_name);
}

/// The host's name, for the `number`th peer of a run on this machine.
std::string default_name(int number) {
  std::array<char, 256> host{};
  const bool is_usable = gethostname(host.data(), host.size() - 1) == 0 && is_name(host.data());
  const std::string name = is_usable ? host.data() : "peer";
  const std::string end = number == 1 ? "" : fmt::format("-{}", number);
  return name.substr(0, wire::kNameMax - end.size()) + end;
}

/// Makes a folder and locks it; nothing if a peer has it.
base::Result<std::optional<base::FileLock>> take_folder(const std::string& dir) {
  if (auto made = base::make_folder(dir); !made) return fail(made.error());
  return base::FileLock::take(dir + "/" + report::kLockFile);
}

}  // namespace

base::Result<Place> take_place(const std::string& run, const std::string& wanted_name,
                               const std::string& wanted_dir) {
  if (wanted_name.size() > wire::kNameMax) {
    return fail(ErrorCode::usage, "--name: at most {} bytes", wire::kNameMax);
  }
  if (!wanted_name.empty() && !is_name(wanted_name)) {
    return fail(ErrorCode::usage,
                "--name: must be of letters, digits, '.', '_' and '-', and not '.' or '..'");
  }
  std::string dir = wanted_dir;
  while (dir.ends_with('/')) dir.pop_back();
  if (dir.empty() && !wanted_dir.empty()) {
    return fail(ErrorCode::usage, "--dir {}: a peer needs a folder of its own", wanted_dir);
  }
  for (int number = 1; number <= kUnnamedMax; ++number) {
    const std::string name = wanted_name.empty() ? default_name(number) : wanted_name;
    if (wanted_dir.empty()) dir = fmt::format("runs/{}/{}", run, name);
    auto lock = take_folder(dir);
    if (!lock) return fail(lock.error());
    if (*lock) return Place{name, dir, std::move(**lock)};
    if (!wanted_name.empty() || !wanted_dir.empty()) break;
  }
  return fail(ErrorCode::usage,
              "{}: a peer that is running has this folder; wait for it to end, or give this one "
              "another --name or --dir",
              dir);
}

}  // namespace starling::runtime
