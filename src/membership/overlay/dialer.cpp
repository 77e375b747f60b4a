#include "membership/overlay/dialer.hpp"

#include <algorithm>
#include <utility>

#include "base/assert.hpp"
#include "base/jitter.hpp"
#include "base/simulated.hpp"
#include "membership/limits.hpp"

namespace starling::membership {

Dialer::Dialer(std::vector<std::string> join, base::Rng rng) : rng_(rng) {
  base::shuffle(join, rng_);
  if (join.size() > kJoinMax) join.resize(kJoinMax);
  for (std::string& address : join) {
    const bool again = std::any_of(join_.begin(), join_.end(),
                                   [&](const Join& known) { return known.address == address; });
    if (!again)
      join_.push_back({.address = std::move(address), .pace = {}, .found = {}, .holder = {}});
  }
}

base::Time Dialer::own_until(const std::string& address) const {
  const auto own = own_.find(address);
  return own == own_.end() ? base::Time{} : own->second;
}

bool Dialer::usable(const std::string& address, base::Time now) const {
  return !address.empty() && !dials_.contains(address) && own_until(address) <= now;
}

std::vector<std::string> Dialer::addresses_of(const wire::MemberRecord& member) const {
  std::vector<std::string> addresses = member.addresses;
  for (const Join& join : join_) {
    if (join.found == member.id && std::ranges::count(addresses, join.address) == 0) {
      addresses.push_back(join.address);
    }
  }
  return addresses;
}

const Dialer::Tried* Dialer::tried(const base::PeerId& peer, const std::string& address) const {
  const auto pace = paces_.find(peer);
  if (pace == paces_.end()) return nullptr;
  const auto known = std::ranges::find(pace->second.tried, address, &Tried::address);
  return known == pace->second.tried.end() ? nullptr : &*known;
}

Dialer::Tried& Dialer::note_tried(const base::PeerId& peer, const std::string& address,
                                  base::Time now) {
  forget_idle(now);
  std::vector<Tried>& known = paces_[peer].tried;
  const auto found = std::ranges::find(known, address, &Tried::address);
  if (found != known.end()) return *found;
  if (known.size() == kTriedMax) known.erase(known.begin());
  tried_most_ = std::max(tried_most_, known.size() + 1);
  return known.emplace_back(Tried{.address = address});
}

void Dialer::forget_outdated(const wire::MemberRecord& member,
                             const std::vector<std::string>& addresses) {
  const auto pace = paces_.find(member.id);
  if (pace == paces_.end()) return;
  std::erase_if(pace->second.tried,
                [&](const Tried& one) { return std::ranges::count(addresses, one.address) == 0; });
  if (pace->second.incarnation == member.incarnation) return;
  for (Tried& one : pace->second.tried) one.taken_until = {};
}

bool Dialer::may_be_elsewhere(const wire::MemberRecord& member, base::Time now) const {
  return std::ranges::any_of(addresses_of(member), [&](const std::string& address) {
    const Tried* known = tried(member.id, address);
    return own_until(address) <= now &&
           (known == nullptr || (known->failures == 0 && known->taken_until <= now));
  });
}

std::optional<std::string> Dialer::dial(const wire::MemberRecord& member, Purpose purpose,
                                        base::Time now) {
  if (dials_.size() >= kDialsMax || is_dialing(member.id) || SIM_RARE(dial_not_now)) {
    return std::nullopt;
  }
  std::vector<std::string> addresses = addresses_of(member);
  forget_outdated(member, addresses);
  std::erase_if(addresses, [&](const std::string& address) {
    const Tried* known = tried(member.id, address);
    return !usable(address, now) || (known != nullptr && known->taken_until > now);
  });
  // Behind two routers alike, each has the address that the other one has: others may help.
  const bool may_be_met = !member.addresses.empty() && purpose == Purpose::wanted &&
                          member.reach != wire::Reachability::reachable;
  if (addresses.empty() && may_be_met && usable(name_of(member.id), now)) {
    addresses.push_back(name_of(member.id));
  }
  if (addresses.empty()) return std::nullopt;
  const auto next = std::ranges::min_element(addresses, {}, [&](const std::string& address) {
    const Tried* known = tried(member.id, address);
    return known == nullptr ? 0 : known->failures;
  });
  forget_idle(now);
  Pace& pace = paces_[member.id];
  if (pace.not_before > now) return std::nullopt;
  pace.incarnation = member.incarnation;
  start(*next, member.id, purpose, now);
  return *next;
}

bool Dialer::join_due(bool lonely, base::Time now) const {
  return dials_.size() < kDialsMax &&
         std::any_of(join_.begin(), join_.end(), [&](const Join& join) {
           return join.pace.not_before <= now && (!join.found || lonely) &&
                  usable(join.address, now);
         });
}

std::optional<std::string> Dialer::dial_join(bool lonely, const IsKnown& is_known, base::Time now) {
  if (dials_.size() >= kDialsMax) return std::nullopt;
  for (Join& join : join_) {
    if (join.pace.not_before > now || (join.found && !lonely)) continue;
    if (!usable(join.address, now)) continue;
    if (is_known(join.address, join.holder)) {
      join.pace.not_before = now + jittered(kRevivalMin, rng_);
      continue;
    }
    start(join.address, join.found, Purpose::wanted, now);
    return join.address;
  }
  return std::nullopt;
}

bool Dialer::dial_found(const std::string& address, base::Time now) {
  if (dials_.size() >= kDialsMax || count(Purpose::found) >= kFoundDialsMax ||
      !usable(address, now)) {
    return false;
  }
  start(address, std::nullopt, Purpose::found, now);
  return true;
}

std::size_t Dialer::count(Purpose purpose) const {
  return static_cast<std::size_t>(std::ranges::count_if(
      dials_, [&](const auto& dial) { return dial.second.purpose == purpose; }));
}

void Dialer::start(const std::string& address, std::optional<base::PeerId> target, Purpose purpose,
                   base::Time now) {
  dials_.insert_or_assign(
      address, Dialing{.target = target, .expires = now + kDialTimeout, .purpose = purpose});
}

void Dialer::answered(const std::string& address, const base::PeerId& peer, base::Time now,
                      base::Duration taken) {
  const auto dial = dials_.find(address);
  // Another one lives there now.
  const bool stranger = dial != dials_.end() && dial->second.target && dial->second.target != peer;
  if (stranger && !SIM_BUG(stranger_dialed_again)) {
    back_off(*dial->second.target, true, now);
    note_tried(*dial->second.target, address, now).taken_until = now + taken;
  }
  if (tried(peer, address) != nullptr) note_tried(peer, address, now) = {.address = address};
  dials_.erase(address);
  for (Join& join : join_) {
    if (join.address != address) continue;
    join.found = peer;
    // It names other members where it has no place. Once linked it is no longer due.
    join.pace = {.backoff = {}, .not_before = now + jittered(kRejectedPause, rng_)};
  }
  if (const auto pace = paces_.find(peer); pace != paces_.end()) pace->second.backoff = {};
}

bool Dialer::failed(const std::string& address, bool own, bool slow, base::Time now) {
  const auto dial = dials_.find(address);
  if (dial == dials_.end()) return false;
  if (own) {
    std::erase_if(own_, [&](const auto& known) { return known.second <= now; });
    if (own_.size() < kOwnAddressesMax) own_.emplace(address, now + kOwnAddressMemory);
  }
  if (dial->second.target) {
    back_off(*dial->second.target, slow, now);
    if (!own && !dial->second.stood_still) {
      Tried& known = note_tried(*dial->second.target, address, now);
      known.failures = std::min(known.failures + 1, kFailuresCounted);
    }
  }
  for (Join& join : join_) {
    if (join.address == address) join.pace.not_before = after_back_off(join.pace, slow, now);
  }
  dials_.erase(dial);
  return true;
}

void Dialer::back_off(const base::PeerId& peer, bool slow, base::Time now) {
  forget_idle(now);
  Pace& pace = paces_[peer];
  set_due(peer, pace, after_back_off(pace, slow, now));
}

base::Time Dialer::after_back_off(Pace& pace, bool slow, base::Time now) {
  if (SIM_BUG(dead_dialed_often)) slow = false;
  const base::Duration least = slow ? kRevivalMin : kBackoffMin;
  const base::Duration most = slow ? kRevivalMax : kBackoffMax;
  pace.backoff = SIM_RARE(back_off_long) ? most : std::clamp(2 * pace.backoff, least, most);
  if (SIM_BUG(back_off_unbounded)) pace.backoff = 16 * most;
  return now + jittered(SIM_RARE(back_off_none) ? base::Duration{} : pace.backoff, rng_);
}

void Dialer::set_due(const base::PeerId& peer, Pace& pace, base::Time due) {
  by_due_.erase({pace.not_before, peer});
  by_due_.emplace(due, peer);
  pace.not_before = due;
}

std::vector<std::string> Dialer::overdue(base::Time now) const {
  std::vector<std::string> addresses;
  for (const auto& [address, dial] : dials_) {
    if (dial.expires <= now) addresses.push_back(address);
  }
  return addresses;
}

void Dialer::extend(base::Duration pause) {
  for (auto& [address, dial] : dials_) {
    dial.expires += pause;
    dial.stood_still = true;
  }
}

bool Dialer::stood_still(const std::string& address) const {
  const auto dial = dials_.find(address);
  return dial != dials_.end() && dial->second.stood_still;
}

void Dialer::postpone(const base::PeerId& peer, base::Duration pause, base::Time now) {
  forget_idle(now);
  Pace& pace = paces_[peer];
  set_due(peer, pace, std::max(pace.not_before, now + jittered(pause, rng_)));
}

void Dialer::block_for(const base::PeerId& peer, base::Duration pause, base::Time now) {
  forget_idle(now);
  Pace& pace = paces_[peer];
  set_due(peer, pace, std::max(pace.not_before, now + pause));
  for (Join& join : join_) {
    if (join.found == peer) join.pace.not_before = std::max(join.pace.not_before, now + pause);
  }
}

void Dialer::forget_found(const base::PeerId& peer, base::Time now) {
  for (Join& join : join_) {
    if (join.found != peer) continue;
    join.found.reset();
    join.pace.not_before = std::max(join.pace.not_before, now + jittered(kRevivalMin, rng_));
  }
}

void Dialer::hurry(const base::PeerId& peer, base::Time now) {
  const auto pace = paces_.find(peer);
  if (pace == paces_.end()) return;
  pace->second.backoff = {};
  set_due(peer, pace->second, now);
}

std::optional<base::PeerId> Dialer::target(const std::string& address) const {
  const auto dial = dials_.find(address);
  return dial == dials_.end() ? std::nullopt : dial->second.target;
}

bool Dialer::is_dialing(const base::PeerId& peer) const {
  return std::any_of(dials_.begin(), dials_.end(),
                     [&](const auto& dial) { return dial.second.target == peer; });
}

base::Time Dialer::due(const base::PeerId& peer) const {
  const auto pace = paces_.find(peer);
  return pace == paces_.end() ? base::Time{} : pace->second.not_before;
}

std::optional<base::Time> Dialer::next_due(bool lonely, base::Time now) const {
  base::Earliest next;
  for (const auto& [address, dial] : dials_) next.add(dial.expires);
  for (const Join& join : join_) {
    if (join.found && !lonely) continue;
    const base::Time due = std::max(join.pace.not_before, own_until(join.address));
    if (due > now) next.add(due);
  }
  return next.value();
}

void Dialer::add_bounds(base::Bounds& out) const {
  out.add("dials under way", dials_.size(), kDialsMax);
  out.add("dials at addresses that were heard", count(Purpose::found), kFoundDialsMax);
  out.add("dials of dead members", revivals(), kRevivalsMax);
  out.add("members to be dialed", paces_.size(), kMembersMax);
  out.add("times of dials", by_due_.size(), paces_.size());
  out.add("configured addresses", join_.size(), kJoinMax);
  out.add("addresses that were tried of a member", tried_most_, kTriedMax);
  out.add("own addresses", own_.size(), kOwnAddressesMax);
}

void Dialer::add_timers(base::Time now, base::Bounds& out) const {
  for (const auto& [address, dial] : dials_) {
    out.add_timer("the end of a dial", dial.expires, now, kDialTimeout);
  }
  for (const Join& join : join_) {
    out.add_timer("the dial of a configured address", join.pace.not_before, now, kRevivalMax);
  }
  if (!by_due_.empty()) {
    out.add_timer("the dial of a member", by_due_.rbegin()->first, now, kRevivalMax);
  }
}

// The table of paces follows the members that are dialed; with as many as the member table may
// hold, those that wait for nothing are dropped.
void Dialer::forget_idle(base::Time now) {
  if (paces_.size() < kMembersMax) return;
  const auto forget = [&](const auto& entry) {
    by_due_.erase({entry.second.not_before, entry.first});
    return true;
  };
  std::erase_if(paces_,
                [&](const auto& entry) { return entry.second.not_before <= now && forget(entry); });
  if (paces_.size() >= kMembersMax && forget(*paces_.begin())) paces_.erase(paces_.begin());
}

}  // namespace starling::membership
