#include "sim/language/plan_hostile.hpp"

#include <cstddef>
#include <span>

#include "base/hash.hpp"
#include "sim/language/selection.hpp"

namespace starling::sim {
namespace {

/// Of the draws of [[hostile]] entries: others' seeds have no such word.
constexpr std::uint64_t kDraws = 0x686f'7374'696c'65;

}  // namespace

base::Status cast_hostiles(Plan& plan) {
  const auto reject = [&](const HostileEntry& entry, const char* why, std::uint32_t number) {
    return base::fail(base::ErrorCode::run_file, "{}:{}: hostile.peers: peer {} {}",
                      plan.scenario.file, entry.line, number, why);
  };
  Numbers candidates;
  for (const PlannedPeer& peer : plan.peers) {
    if (!peer.relay) candidates.push_back(peer.number);
  }
  for (std::size_t i = 0; i < plan.scenario.hostiles.size(); ++i) {
    const HostileEntry& entry = plan.scenario.hostiles[i];
    for (const std::uint32_t number : entry.peers.numbers) {
      if (number >= plan.peers.size()) return reject(entry, "does not exist", number);
      if (plan.peers[number].relay) return reject(entry, "is a relay, without a replica", number);
      if (plan.peers[number].attack) return reject(entry, "is in another entry, too", number);
    }
    const std::uint64_t key[] = {plan.seed, kDraws, i};
    Draws draws{.rng = base::Rng(base::xxh3(std::as_bytes(std::span(key))))};
    for (const std::uint32_t number : choose(entry.peers, candidates, plan.peers, draws)) {
      plan.peers[number].attack = entry.attack;
    }
    std::erase_if(candidates, [&](std::uint32_t number) { return plan.peers[number].attack; });
  }
  return {};
}

}  // namespace starling::sim
