// A peer without a replica, which is there so that others reach each other: its run is theirs.
#include <algorithm>
#include <chrono>
#include <utility>

#include <fmt/core.h>

#include "peer/core.hpp"

namespace starling::peer {

using base::Notice;
using base::Severity;

// Whoever comes first says which run it is, unless a person did; heartbeats come as they do there.
void Core::find_run(const wire::Hello& hello, Outbox& out) {
  if (config_.run != wire::RunId{} && hello.run != config_.run) return;
  knows_run_ = true;
  config_.run = hello.run;
  config_.parameters_hash = hello.parameters_hash;
  config_.membership.heartbeat = std::chrono::milliseconds(hello.heartbeat_ms);
  membership_.set_heartbeat(config_.membership.heartbeat);
  out.push_back(
      Notice{Severity::info, fmt::format("relays for run {}", config_.run.hex().substr(0, 8))});
  for (const auto& [link, info] : links_) {
    if (!info.closing) say_hello(link, info, out);
  }
}

// Where all others are behind routers, who is invited can ask nobody but the relay.
bool Core::tell_run_file(base::LinkId link, LinkInfo& info, Outbox& out) const {
  const wire::MemberRecord* record = membership_.table().find(info.peer);
  if (!info.ready || record == nullptr || record->has_replica) return false;
  if (std::exchange(info.told_run_file, true)) return false;
  if (!config_.shared_run_file.empty()) {
    out.push_back(Send{link, wire::RunFileReply{config_.shared_run_file}});
  }
  return true;
}

void Core::note_links_of_relay(base::Time now) {
  const auto is_ready = [](const auto& entry) { return entry.second.ready; };
  if (std::ranges::any_of(links_, is_ready)) {
    relays_until_.reset();
  } else if (knows_run_ && !relays_until_) {
    relays_until_ = now + kRelayAlone;
  }
}

}  // namespace starling::peer
