#include "membership/detector/flap_damper.hpp"

#include <algorithm>

#include "base/simulated.hpp"
#include "membership/limits.hpp"
#include "membership/record.hpp"

namespace starling::membership {

base::Time FlapDamper::Flap::ends() const {
  const int free = large ? 0 : 1;  // deaths that hold nobody back
  if (cut || deaths <= free) return last_death;
  base::Duration hold = kHoldMin;
  for (int i = free + 1; i < deaths && hold < kHoldMax; ++i) hold *= 2;
  return last_death + std::min(hold, kHoldMax);
}

// A refutation raises the incarnation by little, a new process starts with the time of day.
bool FlapDamper::Flap::same_life(const wire::MemberRecord& record) const {
  return record.incarnation <= incarnation + kRefutationsMax;
}

void FlapDamper::died(const wire::MemberRecord& record, std::size_t alive, base::Time now) {
  std::erase_if(flaps_, [&](const auto& entry) {
    return !waiting_.contains(entry.first) && now - entry.second.last_death > kFlapMemory;
  });
  const auto found = flaps_.find(record.id);
  if (found == flaps_.end() && flaps_.size() >= kMembersMax) return;
  Flap& flap = flaps_[record.id];
  if (!flap.cut) ++flap.deaths;
  flap.last_death = now;
  flap.incarnation = record.incarnation;
  flap.large = alive >= kLargeSwarm;
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

bool FlapDamper::hold_back(const wire::MemberRecord& record, base::Time now) {
  const auto found = flaps_.find(record.id);
  if (found == flaps_.end() || SIM_BUG(returns_believed)) return false;
  Flap& flap = found->second;
  if (now >= flap.ends() || (flap.deaths < 2 && !flap.same_life(record))) return false;
  const auto [waiting, fresh] = waiting_.try_emplace(record.id, record);
  if (!fresh && record.incarnation > waiting->second.incarnation) waiting->second = record;
  return true;
}

void FlapDamper::returned(const wire::MemberRecord& record, base::Time now) {
  const auto found = flaps_.find(record.id);
  if (found == flaps_.end()) return;
  Flap& flap = found->second;
  waiting_.erase(record.id);
  if (flap.large && !flap.cut && flap.same_life(record)) flap.immune_until = now + kHoldMin;
}

void FlapDamper::gone(const wire::MemberRecord& record) {
  const auto found = waiting_.find(record.id);
  if (found == waiting_.end() || version_of(found->second) > version_of(record)) return;
  waiting_.erase(found);
}

base::Time FlapDamper::immune_until(const base::PeerId& peer) const {
  const auto found = flaps_.find(peer);
  return found == flaps_.end() ? base::Time{} : found->second.immune_until;
}

std::vector<wire::MemberRecord> FlapDamper::take_due(base::Time now) {
  std::vector<wire::MemberRecord> due;
  std::erase_if(waiting_, [&](auto& entry) {
    if (now < flaps_.at(entry.first).ends()) return false;
    due.push_back(std::move(entry.second));
    return true;
  });
  return due;
}

std::optional<base::Time> FlapDamper::next_due() const {
  base::Earliest next;
  for (const auto& [peer, record] : waiting_) next.add(flaps_.at(peer).ends());
  return next.value();
}

}  // namespace starling::membership
