#include "membership/overlay/places.hpp"

#include <algorithm>
#include <vector>

#include "base/assert.hpp"
#include "base/simulated.hpp"

namespace starling::membership {

std::size_t Places::responsive(base::Time now) const {
  const std::size_t all = links_.count(Role::neighbour);
  const auto silent =
      static_cast<std::size_t>(std::ranges::count_if(links_, [&](const auto& entry) {
        const Link& link = entry.second;
        return link.role == Role::neighbour && !link.to_relay && watch_.is_silent(entry.first, now);
      }));
  return 2 * silent >= all ? all - silent : all;
}

std::size_t Places::wanted(base::Time now) const {
  const std::size_t have = responsive(now) + links_.count(Role::requested);
  return have >= degree_ ? 0 : degree_ - have;
}

bool Places::wants_relays() const {
  return !candidates_.is_relay() && candidates_.self().reach != wire::Reachability::reachable &&
         !table_.relays().empty() && links_.relays() < kRelaysSought;
}

bool Places::has_room_for(const Link& link, base::Time now) const {
  if (link.to_relay) return links_.relays() < kRelaysMax;
  const std::size_t neighbours = responsive(now);
  if (candidates_.is_relay()) {
    return neighbours < kServedMax || std::ranges::any_of(links_, [&](const auto& entry) {
             return needs_no_relay(entry.second);
           });
  }
  // Requests of ours that are under way may still be rejected: they count against the slack only,
  // or peers that all seek at once would all reject each other.
  return neighbours < degree_ &&
         neighbours + links_.count(Role::requested) < degree_ + kDegreeSlack;
}

bool Places::needs_no_relay(const Link& link) const {
  if (link.role != Role::neighbour || link.held) return false;
  const wire::MemberRecord* record = table_.find(link.peer);
  return record != nullptr && record->reach == wire::Reachability::reachable;
}

// Above degree + slack one of the neighbours goes, at random: were it the one that has most links
// itself, the overlay would be a worse expander (32 peers: a spectral gap of 0.17 instead of 0.19).
std::optional<base::LinkId> Places::surplus(base::Rng& rng) const {
  if (links_.count(Role::neighbour) <= neighbours_max() || SIM_BUG(surplus_kept)) {
    return std::nullopt;
  }
  std::uint64_t last = 0;
  for (const auto& [id, link] : links_) {
    if (link.role == Role::neighbour) last = std::max(last, link.turn);
  }
  std::vector<base::LinkId> others;
  for (const auto& [id, link] : links_) {
    if (link.role == Role::neighbour && !link.to_relay && link.turn != last) {
      others.push_back(id);
    }
  }
  ASSERT(!others.empty());
  const auto keep_only = [&](auto&& fits) {
    if (std::ranges::any_of(others, fits)) {
      std::erase_if(others, [&](base::LinkId id) { return !fits(id); });
    }
  };
  if (candidates_.is_relay()) {
    keep_only([&](base::LinkId id) { return needs_no_relay(links_.at(id)); });
  }
  // A peer that has enough without this one seeks no other; one that has another waits for it.
  for (const std::uint32_t enough : {degree_, 1U}) {
    keep_only([&](base::LinkId id) { return candidates_.links_told(links_.at(id).peer) > enough; });
  }
  // Direct links are kept rather than those over a circuit, and those that carry a circuit
  // rather than others.
  keep_only([&](base::LinkId id) { return links_.at(id).relayed; });
  keep_only([&](base::LinkId id) { return !links_.at(id).held; });
  return others[rng.below(others.size())];
}

}  // namespace starling::membership
