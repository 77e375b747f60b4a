#include "membership/flaps.hpp"

#include <algorithm>

#include "membership/limits.hpp"

namespace starling::membership {

base::Time Flaps::Flap::ends() const {
  if (cut || deaths < 2) return last_death;
  base::Duration hold = kHoldMin;
  for (int i = 2; i < deaths && hold < kHoldMax; ++i) hold *= 2;
  return last_death + std::min(hold, kHoldMax);
}

void Flaps::died(const base::PeerId& peer, std::size_t alive, base::Time now) {
  std::erase_if(flaps_, [&](const auto& entry) {
    return !entry.second.waiting && now - entry.second.last_death > kFlapMemory;
  });
  const auto found = flaps_.find(peer);
  if (found == flaps_.end() && flaps_.size() >= kMembersMax) return;
  Flap& flap = flaps_[peer];
  if (!flap.cut) ++flap.deaths;
  flap.last_death = now;
  flap.cut = false;
  const auto is_recent = [&](const auto& entry) {
    return now - entry.second.last_death <= kCutMemory;
  };
  const auto recent = std::count_if(flaps_.begin(), flaps_.end(), is_recent);
  if (2 * static_cast<std::size_t>(recent) < alive) return;
  for (auto& entry : flaps_) {
    if (is_recent(entry)) entry.second.cut = true;
  }
}

bool Flaps::holds_back(const wire::MemberRecord& record, base::Time now) {
  const auto found = flaps_.find(record.id);
  if (found == flaps_.end()) return false;
  Flap& flap = found->second;
  if (now >= flap.ends()) return false;
  if (!flap.waiting || record.incarnation > flap.waiting->incarnation) flap.waiting = record;
  return true;
}

std::vector<wire::MemberRecord> Flaps::take_due(base::Time now) {
  std::vector<wire::MemberRecord> due;
  for (auto& [peer, flap] : flaps_) {
    if (!flap.waiting || now < flap.ends()) continue;
    due.push_back(std::move(*flap.waiting));
    flap.waiting.reset();
  }
  return due;
}

std::optional<base::Time> Flaps::next_due() const {
  std::optional<base::Time> next;
  for (const auto& [peer, flap] : flaps_) {
    const base::Time due = flap.ends();
    if (flap.waiting && (!next || due < *next)) next = due;
  }
  return next;
}

}  // namespace starling::membership
