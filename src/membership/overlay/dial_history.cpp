#include "membership/overlay/dial_history.hpp"

#include <algorithm>

#include "base/jitter.hpp"
#include "base/simulated.hpp"

namespace starling::membership {

base::Time Pace::back_off(bool slow, base::Time now, base::Rng& rng) {
  if (SIM_BUG(dead_dialed_often)) slow = false;
  const base::Duration least = slow ? kRevivalMin : kBackoffMin;
  const base::Duration most = slow ? kRevivalMax : kBackoffMax;
  backoff = SIM_RARE(back_off_long) ? most : std::clamp(2 * backoff, least, most);
  if (SIM_BUG(back_off_unbounded)) backoff = 16 * most;
  return now + jittered(SIM_RARE(back_off_none) ? base::Duration{} : backoff, rng);
}

base::Time DialHistory::due(const base::PeerId& peer) const {
  const auto found = rows_.find(peer);
  return found == rows_.end() ? base::Time{} : found->second.pace.not_before;
}

int DialHistory::failures(const base::PeerId& peer, const std::string& address) const {
  const Tried* known = find(peer, address);
  return known == nullptr ? 0 : known->failures;
}

bool DialHistory::is_taken(const base::PeerId& peer, const std::string& address,
                           base::Time now) const {
  const Tried* known = find(peer, address);
  return known != nullptr && known->taken_until > now;
}

bool DialHistory::begin(const wire::MemberRecord& member, base::Time now) {
  Row& known = row(member.id, now);
  if (known.pace.not_before > now) return false;
  known.incarnation = member.incarnation;
  return true;
}

void DialHistory::answered(const base::PeerId& peer, const std::string& address, base::Time now) {
  if (find(peer, address) != nullptr) note(peer, address, now) = {.address = address};
  if (const auto found = rows_.find(peer); found != rows_.end()) found->second.pace.backoff = {};
}

void DialHistory::failed(const base::PeerId& peer, const std::string& address, base::Time now) {
  Tried& known = note(peer, address, now);
  known.failures = std::min(known.failures + 1, kFailuresCounted);
}

void DialHistory::taken(const base::PeerId& peer, const std::string& address, base::Time until,
                        base::Time now) {
  note(peer, address, now).taken_until = until;
}

void DialHistory::back_off(const base::PeerId& peer, bool slow, base::Time now, base::Rng& rng) {
  Pace& pace = row(peer, now).pace;
  set_due(peer, pace, pace.back_off(slow, now, rng));
}

void DialHistory::wait_until(const base::PeerId& peer, base::Time time, base::Time now) {
  Pace& pace = row(peer, now).pace;
  set_due(peer, pace, std::max(pace.not_before, time));
}

void DialHistory::hurry(const base::PeerId& peer, base::Time now) {
  const auto found = rows_.find(peer);
  if (found == rows_.end()) return;
  found->second.pace.backoff = {};
  set_due(peer, found->second.pace, now);
}

void DialHistory::forget_outdated(const wire::MemberRecord& member,
                                  const std::vector<std::string>& addresses) {
  const auto found = rows_.find(member.id);
  if (found == rows_.end()) return;
  std::vector<Tried>& tried = found->second.tried;
  std::erase_if(tried,
                [&](const Tried& one) { return std::ranges::count(addresses, one.address) == 0; });
  if (found->second.incarnation == member.incarnation) return;
  for (Tried& one : tried) one.taken_until = {};
}

void DialHistory::add_bounds(base::Bounds& out) const {
  out.add("members to be dialed", rows_.size(), kMembersMax);
  out.add("times of dials", by_due_.size(), rows_.size());
  out.add("addresses that were tried of a member", tried_most_, kTriedMax);
}

void DialHistory::add_timers(base::Time now, base::Bounds& out) const {
  if (by_due_.empty()) return;
  out.add_timer("the dial of a member", by_due_.rbegin()->first, now, kRevivalMax);
}

DialHistory::Row& DialHistory::row(const base::PeerId& peer, base::Time now) {
  const auto forget = [&](const auto& entry) {
    by_due_.erase({entry.second.pace.not_before, entry.first});
    return true;
  };
  if (rows_.size() >= kMembersMax) {
    std::erase_if(rows_, [&](const auto& entry) {
      return entry.second.pace.not_before <= now && forget(entry);
    });
    if (rows_.size() >= kMembersMax && forget(*rows_.begin())) rows_.erase(rows_.begin());
  }
  return rows_[peer];
}

const DialHistory::Tried* DialHistory::find(const base::PeerId& peer,
                                            const std::string& address) const {
  const auto row = rows_.find(peer);
  if (row == rows_.end()) return nullptr;
  const auto known = std::ranges::find(row->second.tried, address, &Tried::address);
  return known == row->second.tried.end() ? nullptr : &*known;
}

DialHistory::Tried& DialHistory::note(const base::PeerId& peer, const std::string& address,
                                      base::Time now) {
  std::vector<Tried>& known = row(peer, now).tried;
  const auto found = std::ranges::find(known, address, &Tried::address);
  if (found != known.end()) return *found;
  if (known.size() == kTriedMax) known.erase(known.begin());
  tried_most_ = std::max(tried_most_, known.size() + 1);
  return known.emplace_back(Tried{.address = address});
}

void DialHistory::set_due(const base::PeerId& peer, Pace& pace, base::Time due) {
  by_due_.erase({pace.not_before, peer});
  by_due_.emplace(due, peer);
  pace.not_before = due;
}

}  // namespace starling::membership
