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

bool Dialer::may_be_elsewhere(const wire::MemberRecord& member, base::Time now) const {
  return std::ranges::any_of(addresses_of(member), [&](const std::string& address) {
    return own_until(address) <= now && history_.failures(member.id, address) == 0 &&
           !history_.is_taken(member.id, address, now);
  });
}

std::optional<std::string> Dialer::dial(const wire::MemberRecord& member, base::Time now,
                                        DialPurpose purpose) {
  if (dials_.size() >= kDialsMax || is_dialing(member.id) || SIM_RARE(dial_not_now)) {
    return std::nullopt;
  }
  std::vector<std::string> addresses = addresses_of(member);
  history_.forget_outdated(member, addresses);
  std::erase_if(addresses, [&](const std::string& address) {
    return !usable(address, now) || history_.is_taken(member.id, address, now);
  });
  // Behind two routers alike, each has the address that the other one has: others may help.
  const bool may_be_met = !member.addresses.empty() && purpose == DialPurpose::wanted &&
                          member.reach != wire::Reachability::reachable;
  if (addresses.empty() && may_be_met && usable(name_of(member.id), now)) {
    addresses.push_back(name_of(member.id));
  }
  if (addresses.empty()) return std::nullopt;
  const auto next = std::ranges::min_element(addresses, {}, [&](const std::string& address) {
    return history_.failures(member.id, address);
  });
  if (!history_.begin(member, now)) return std::nullopt;
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
    start(join.address, join.found, DialPurpose::wanted, now);
    return join.address;
  }
  return std::nullopt;
}

bool Dialer::dial_found(const std::string& address, base::Time now) {
  if (dials_.size() >= kDialsMax || count(DialPurpose::found) >= kFoundDialsMax ||
      !usable(address, now)) {
    return false;
  }
  start(address, std::nullopt, DialPurpose::found, now);
  return true;
}

std::size_t Dialer::count(DialPurpose purpose) const {
  return static_cast<std::size_t>(std::ranges::count_if(
      dials_, [&](const auto& dial) { return dial.second.purpose == purpose; }));
}

void Dialer::start(const std::string& address, std::optional<base::PeerId> target,
                   DialPurpose purpose, base::Time now) {
  dials_.insert_or_assign(
      address, Dialing{.target = target, .expires = now + kDialTimeout, .purpose = purpose});
}

void Dialer::answered(const std::string& address, const base::PeerId& peer, base::Time now,
                      base::Duration taken) {
  const auto dial = dials_.find(address);
  // Another one lives there now.
  const bool stranger = dial != dials_.end() && dial->second.target && dial->second.target != peer;
  if (stranger && !SIM_BUG(stranger_dialed_again)) {
    history_.back_off(*dial->second.target, true, now, rng_);
    history_.taken(*dial->second.target, address, now + taken, now);
  }
  history_.answered(peer, address, now);
  dials_.erase(address);
  for (Join& join : join_) {
    if (join.address != address) continue;
    join.found = peer;
    // It names other members where it has no place. Once linked it is no longer due.
    join.pace = {.backoff = {}, .not_before = now + jittered(kRejectedPause, rng_)};
  }
}

bool Dialer::failed(const std::string& address, bool own, bool slow, base::Time now) {
  const auto dial = dials_.find(address);
  if (dial == dials_.end()) return false;
  if (own) {
    std::erase_if(own_, [&](const auto& known) { return known.second <= now; });
    if (own_.size() < kOwnAddressesMax) own_.emplace(address, now + kOwnAddressMemory);
  }
  if (dial->second.target) {
    history_.back_off(*dial->second.target, slow, now, rng_);
    if (!own && !dial->second.stood_still) history_.failed(*dial->second.target, address, now);
  }
  for (Join& join : join_) {
    if (join.address == address) join.pace.not_before = join.pace.back_off(slow, now, rng_);
  }
  dials_.erase(dial);
  return true;
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
  history_.wait_until(peer, now + jittered(pause, rng_), now);
}

void Dialer::block_for(const base::PeerId& peer, base::Duration pause, base::Time now) {
  history_.wait_until(peer, now + pause, now);
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

std::optional<base::PeerId> Dialer::target(const std::string& address) const {
  const auto dial = dials_.find(address);
  return dial == dials_.end() ? std::nullopt : dial->second.target;
}

bool Dialer::is_dialing(const base::PeerId& peer) const {
  return std::any_of(dials_.begin(), dials_.end(),
                     [&](const auto& dial) { return dial.second.target == peer; });
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
  out.add("dials at addresses that were heard", count(DialPurpose::found), kFoundDialsMax);
  out.add("dials of dead members", count(DialPurpose::revival), kRevivalsMax);
  out.add("configured addresses", join_.size(), kJoinMax);
  out.add("own addresses", own_.size(), kOwnAddressesMax);
  history_.add_bounds(out);
}

void Dialer::add_timers(base::Time now, base::Bounds& out) const {
  for (const auto& [address, dial] : dials_) {
    out.add_timer("the end of a dial", dial.expires, now, kDialTimeout);
  }
  for (const Join& join : join_) {
    out.add_timer("the dial of a configured address", join.pace.not_before, now, kRevivalMax);
  }
  history_.add_timers(now, out);
}

}  // namespace starling::membership
