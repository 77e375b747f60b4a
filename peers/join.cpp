// join: a peer of a swarm whose run file is not yet here.
#include <algorithm>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include <fmt/core.h>

#include "base/file.hpp"
#include "base/printable.hpp"
#include "commands.hpp"
#include "complain.hpp"
#include "io/proxy.hpp"
#include "io/secret.hpp"
#include "io/visit.hpp"
#include "runfile/invite.hpp"

namespace starling::peers {
namespace {

namespace fs = std::filesystem;
using base::fail;

/// Kept here for the next start, when the peer that handed it out may be gone: below runs/, by run.
constexpr const char* kFolder = "runs/joined";

base::Status store(const std::string& path, const std::string& text) {
  if (auto made = base::make_folder(kFolder); !made) return made;
  return base::replace_file(path, text);
}

/// The run file, if its links have the invite's security mode.
base::Result<runfile::RunFile> as_invited(base::Result<runfile::RunFile> run_file,
                                          const std::string& name, const runfile::Invite& invite) {
  if (!run_file || run_file->security == invite.security) return run_file;
  return fail(base::ErrorCode::run_file,
              "{}: its security.mode is not that of the invite; do not trust who handed it out",
              name);
}

/// The run file at `up.run_file`, which is fetched first if it is missing.
base::Result<runfile::RunFile> obtain(const runfile::Invite& invite, const std::string& secret_file,
                                      UpOptions& up) {
  const std::string& path = up.run_file;
  std::error_code error;
  if (fs::exists(path, error)) return as_invited(runfile::read_run_file(path), path, invite);
  if (error) return fail(base::ErrorCode::data, "{}: {}", path, error.message());
  const auto secret = io::Secret::load_if_any(secret_file);
  if (!secret) return fail(secret.error());
  const auto proxy = io::choose_proxy(up.peer.proxy);
  if (!proxy) return fail(proxy.error());
  const auto text = io::request_run_file(invite, *secret, *proxy);
  if (!text) return fail(text.error());
  const std::string name = "the swarm's run file";
  auto run_file = as_invited(runfile::parse_run_file(*text, name), name, invite);
  if (!run_file) return run_file;
  if (const auto stored = store(path, *text); !stored) return fail(stored.error());
  up.is_fetched = true;
  return run_file;
}

/// The swarm's run file at `path` may name files of this machine; these are read only if the user
/// says so, too.
base::Status check_trust(const runfile::RunFile& run_file, const std::string& path,
                         const std::vector<std::string>& set) {
  std::string missing;
  for (const runfile::NamedFile& file : runfile::named_files(run_file)) {
    const auto sets = [&](const std::string& one) { return one.starts_with(file.key + "="); };
    if (std::ranges::any_of(set, sets)) continue;
    missing += fmt::format("\n  --set {}=PATH   (it says {})", file.key,
                           base::printable(file.value, base::kShownMax));
  }
  if (missing.empty()) return {};
  return fail(base::ErrorCode::usage,
              "the swarm's run file ({}) names files of this machine; say where they are here, or "
              "repeat what it says if you trust it with them:{}",
              path, missing);
}

}  // namespace

int run_join(JoinOptions options) {
  const auto invite = runfile::parse_invite(options.invite);
  if (!invite) return complain("join", invite.error());
  UpOptions& up = options.up;
  up.invited_to = invite->run;
  up.run_file = fmt::format("{}/{}.toml", kFolder, invite->run.hex());
  const auto run_file = obtain(*invite, options.secret, up);
  if (!run_file) return complain("join", run_file.error());
  if (!options.secret.empty()) up.set.push_back("security.secret=" + options.secret);
  if (const auto checked = check_trust(*run_file, up.run_file, up.set); !checked) {
    return complain("join", checked.error());
  }
  for (const std::string& address : invite->addresses) up.peer.join.push_back(address);
  if (!up.json) fmt::print("the swarm's run file is {}\n", up.run_file);
  return run_up(up);
}

}  // namespace starling::peers
