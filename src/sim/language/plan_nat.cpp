#include "sim/language/plan_nat.hpp"

#include <algorithm>

namespace starling::sim {
namespace {

using base::ErrorCode;
using base::fail;

base::Status place(Plan& plan, const NatEntry& entry, std::uint32_t router) {
  const std::string& file = plan.scenario.file;
  if (!entry.peers.empty() && entry.peers.back() >= plan.peers.size()) {
    return fail(ErrorCode::run_file,
                "{}:{}: network.nat: there is no peer {}: there are {}, from 0", file, entry.line,
                entry.peers.back(), plan.peers.size());
  }
  for (PlannedPeer& peer : plan.peers) {
    const bool named = std::ranges::binary_search(entry.peers, peer.number);
    if (!named && (!entry.peers.empty() || peer.region != entry.region)) continue;
    if (peer.nat) {
      return fail(ErrorCode::run_file, "{}:{}: network.nat: {} is in an earlier entry, too", file,
                  entry.line, peer.name);
    }
    peer.nat = entry.settings;
    if (entry.settings.shared) peer.router = router;
  }
  return {};
}

}  // namespace

base::Status place_behind_routers(Plan& plan) {
  const Scenario& scenario = plan.scenario;
  for (PlannedPeer& peer : plan.peers) peer.router = peer.number;
  auto router = static_cast<std::uint32_t>(plan.peers.size());
  for (const NatEntry& entry : scenario.nats) {
    if (base::Status placed = place(plan, entry, router++); !placed) return placed;
  }
  for (const Entry& entry : scenario.timeline) {
    if (entry.kind != Kind::twin || scenario.nats.empty()) continue;
    return fail(ErrorCode::run_file,
                "{}:{}: twin: does not go with [[network.nat]]: no router leads to a twin",
                scenario.file, entry.line);
  }
  for (const ExpectedPath& path : scenario.paths) {
    if (path.b < plan.peers.size()) continue;
    return fail(ErrorCode::run_file, "{}: expect.{}: there is no peer {}: there are {}, from 0",
                scenario.file, to_string(path.path), path.b, plan.peers.size());
  }
  return {};
}

bool is_behind_router(const PlannedPeer& peer) {
  return peer.nat && peer.nat->kind != NatKind::open;
}

}  // namespace starling::sim
