// starling relay: a member without a replica, through which others reach each other.
#include "runtime/relay.hpp"

#include <string>
#include <utility>

#include <fmt/core.h>

#include "base/result.hpp"
#include "commands.hpp"
#include "complain.hpp"
#include "io/port_mapping.hpp"
#include "runfile/invite.hpp"
#include "system.hpp"

namespace starling::peers {
namespace {

using base::fail;

/// The run that it serves, and the addresses at which it is looked for.
base::Status take_invite(RelayOptions& options) {
  if (options.invite.empty()) return {};
  auto invite = runfile::parse_invite(options.invite);
  if (!invite) return fail(invite.error().in("--invite"));
  if (invite->security != runfile::Security::tls) {
    return fail(base::ErrorCode::usage,
                "--invite: this swarm's links are not encrypted (security.mode = \"off\"), so "
                "nobody relays for it");
  }
  options.relay.run = invite->run;
  for (std::string& address : invite->addresses) options.peer.join.push_back(std::move(address));
  return {};
}

void print_start(const runtime::Relay& relay, bool secret) {
  fmt::print(
      "relay {} ({}): peers find each other and the relay with\n  --join {}{}\n"
      "or with this address in swarm.join of their run file\n"
      "how it goes: http://{}/\n",
      relay.name(), relay.id().brief(), runfile::invite_word(relay.address()),
      secret ? " --set security.secret=FILE" : "", relay.http_address());
  std::fflush(stdout);
}

/// Serves one run after the other, until a person ends it.
base::Status relay_runs(RelayOptions options) {
  if (auto taken = take_invite(options); !taken) return taken;
  options.peer.port_mapper = io::kOwnProgram;
  for (bool first = true;; first = false) {
    auto relay = runtime::Relay::open(options.relay, options.peer);
    if (!relay) return fail(relay.error());
    // The next run finds the relay at the same address.
    options.peer.listen = (*relay)->listens();
    options.peer.http = (*relay)->http_address();
    options.peer.name = (*relay)->name();
    if (first) print_start(**relay, !options.relay.secret.empty());
    const io::NodeEnd end = (*relay)->run();
    if (end.reason == peer::EndReason::failed) return fail(end.error);
    if (end.reason == peer::EndReason::left) return {};
  }
}

}  // namespace

int run_relay(RelayOptions options) {
  allow_open_files();
  const auto ended = relay_runs(std::move(options));
  return ended ? 0 : complain("relay", ended.error());
}

}  // namespace starling::peers
