#include "reach/core.hpp"

#include <algorithm>

#include "base/assert.hpp"
#include "reach/network.hpp"

namespace starling::reach {

Core::Core(const Config& config, const base::PeerId& self, std::vector<std::string> addresses,
           bool secure, base::Rng rng)
    : config_(config), self_(self), addresses_(std::move(addresses)), secure_(secure), rng_(rng) {}

void Core::handle(const Event& event, const Members& members, base::Time now, Outbox& out) {
  std::visit([&](const auto& value) { on(value, members, now, out); }, event);
}

void Core::expire(const Members& members, base::Time now, Outbox& out) {
  end_late_probes(now, out);
  conclude_if_told(now, out);
  if (ask_at_ && *ask_at_ <= now) ask_witnesses(now, out);
  expire_attempts(members, now, out);
  std::erase_if(introduced_, [&](const Introduced& entry) { return entry.until <= now; });
  look_for_direct_paths(members, now, out);
  end_late_offers(now, out);
}

void Core::on(const LinkReady& event, const Members&, base::Time now, Outbox& out) {
  ASSERT(event.link.valid() && !links_.contains(event.link), "a link becomes ready once");
  Link link;
  link.peer = event.peer;
  link.observed = event.observed;
  link.via = event.via;
  links_.emplace(event.link, std::move(link));
  end_attempts(event, now, out);
  if (event.via.valid()) {
    if (event.asked) upgrades_[event.link] = {event.peer, now + kUpgradeMin, kUpgradeMin};
    return;
  }
  unmet_.erase(event.peer);
  std::erase_if(upgrades_, [&](const auto& entry) { return entry.second.peer == event.peer; });
  if (!linked_since_) linked_since_ = now;
  ask_soon(now, kGather);
}

void Core::on(const LinkLost& event, const Members&, base::Time, Outbox& out) {
  if (links_.erase(event.link) == 0) return;
  upgrades_.erase(event.link);
  std::erase_if(introduced_, [&](const Introduced& entry) { return entry.link == event.link; });
  forget_offers_of(event.link, out);
  for (Witness& witness : witnesses_) {
    if (witness.link == event.link && witness.outcome == wire::DialBackOutcome::none) {
      witness.outcome = wire::DialBackOutcome::busy;
    }
  }
  if (links_.empty()) linked_since_.reset();
}

void Core::on(const Want& event, const Members& members, base::Time now, Outbox& out) {
  const bool has_address = host_port(event.address).has_value();
  const bool help = event.peer && (!has_address || needs_help(*event.peer, members, now));
  const wire::MemberRecord* record = event.peer ? members.find(*event.peer) : nullptr;
  // The address only works within one's own network, and there may be members in common.
  const bool useless = !has_address || (help && record != nullptr &&
                                        record->reach == wire::Reachability::dials_only &&
                                        !is_own_network(event.address) && linked_since_);
  const bool dialed =
      !useless && dial({.purpose = Purpose::want, .address = event.address, .peer = event.peer},
                       DialKind::direct, out);
  if (!event.peer || attempts_.size() >= kAttemptsMax) {
    // Not from within this call: membership has not heard of its own action yet.
    if (dialed) return;
    if (attempts_.size() >= kAttemptsMax) attempts_.erase(attempts_.begin());
  }
  Attempt attempt{.peer = event.peer.value_or(base::PeerId{}),
                  .dialing = dialed,
                  .next_at = help || !dialed ? now : now + kDirectAlone,
                  .expires = now + kAttemptTime};
  attempts_.insert_or_assign(event.address, std::move(attempt));
}

void Core::on(const DialFailed& event, const Members&, base::Time now, Outbox& out) {
  // A dial that was answered, and whose link ended before its Hello, is no longer here.
  Dialing dialing{.purpose = Purpose::want, .address = event.address};
  if (const auto found = find_dial(event.address); found != dials_.end()) {
    dialing = std::move(*found);
    dials_.erase(found);
  }
  if (dialing.purpose == Purpose::probe) {
    if (dialing.answer_by) answer_probe(dialing, wire::DialBackOutcome::failed, out);
    return;
  }
  if (dialing.purpose != Purpose::want || dialing.told) return;
  if (dialing.peer && !event.own) {
    std::erase_if(failed_, [&](const auto& entry) { return entry.second <= now; });
    if (failed_.size() < kFailedMax) failed_[*dialing.peer] = now + kFailedMemory;
  }
  const auto at = attempts_.find(event.address);
  if (at == attempts_.end()) {
    out.push_back(Failed{event.address, event.text, event.own, event.no_route});
    return;
  }
  at->second.dialing = false;
  at->second.text = event.text;
  at->second.no_route = event.no_route;
  if (at->second.stage == Stage::direct || event.own) fail(at, event.own, now, out);
}

void Core::on(const Received& event, const Members& members, base::Time now, Outbox& out) {
  if (!links_.contains(event.link)) return;
  std::visit([&](const auto& message) { on_message(event.link, message, members, now, out); },
             event.message);
}

void Core::on(const Moved& event, const Members&, base::Time now, Outbox& out) {
  const bool same = std::ranges::is_permutation(addresses_, event.addresses);
  addresses_ = event.addresses;
  if (same) {  // only in another order: the findings of others still hold
    const bool dialed = reach_ == wire::Reachability::reachable;
    out.push_back(Tell{reach_, dialed ? outer_ : std::string()});
    return;
  }
  witnesses_.clear();
  networks_.clear();
  unmet_.clear();
  outer_.clear();
  ask_pause_ = kAskAgainMin;
  asked_.reset();
  ask_at_ = now + kGather;
  for (auto& [link, upgrade] : upgrades_) {
    upgrade.pause = kUpgradeMin;
    upgrade.at = std::min(upgrade.at, now + kUpgradeMin);
  }
  reach_ = wire::Reachability::unknown;
  out.push_back(Tell{});
}

Answered Core::answered(const std::string& address, const base::PeerId& peer, base::Time now,
                        Outbox& out) {
  auto found = find_dial(address, peer);
  if (found == dials_.end()) found = find_dial(address);
  if (found == dials_.end()) return {};
  const Dialing dialing = std::move(*found);
  dials_.erase(found);
  const bool as_expected = dialing.peer == peer;
  switch (dialing.purpose) {
    case Purpose::want:
      if (as_expected) failed_.erase(peer);
      if (const auto at = attempts_.find(address); at != attempts_.end() && !dialing.told) {
        // Its Hello is on its way: begin nothing else meanwhile.
        if (at->second.stage == Stage::direct) at->second.next_at.reset();
      }
      return {};
    case Purpose::meet:
      for (auto& [key, attempt] : attempts_) {
        const bool waits = attempt.peer == peer && attempt.stage == Stage::meeting;
        if (waits && as_expected) attempt.next_at = now + kOpenWait;
      }
      return {as_expected ? Answered::Purpose::meet : Answered::Purpose::close};
    case Purpose::back:
      return {as_expected ? Answered::Purpose::back : Answered::Purpose::close, dialing.nonce};
    case Purpose::probe:
      if (dialing.answer_by && *dialing.answer_by > now) {
        answer_probe(dialing,
                     as_expected ? wire::DialBackOutcome::reached : wire::DialBackOutcome::failed,
                     out);
      }
      break;
  }
  return {Answered::Purpose::close};
}

bool Core::is_wanted(const std::string& address) const {
  const auto found = std::ranges::find(dials_, address, &Dialing::address);
  return found == dials_.end() || found->purpose == Purpose::want;
}

std::string Core::address_of(const base::PeerId& peer) const {
  for (const auto& [address, attempt] : attempts_) {
    if (attempt.peer == peer && !attempt.upgrade && attempt.stage != Stage::direct) return address;
  }
  return {};
}

// False: there is no room for it.
bool Core::dial(Dialing dialing, DialKind kind, Outbox& out) {
  const bool for_others = dialing.purpose == Purpose::back || dialing.purpose == Purpose::probe;
  if (dials_.size() >= kDialsMax) return false;
  if (for_others && count(Purpose::back) + count(Purpose::probe) >= kBacksMax) return false;
  out.push_back(Dial{dialing.address, dialing.peer, kind});
  dials_.push_back(std::move(dialing));
  return true;
}

// Several dials to one address may be under way: their outcomes come in the order of their start,
// or the order makes no difference.
std::vector<Core::Dialing>::iterator Core::find_dial(const std::string& address,
                                                     const std::optional<base::PeerId>& peer) {
  return std::ranges::find_if(dials_, [&](const Dialing& dialing) {
    return dialing.address == address && (!peer || dialing.peer == peer);
  });
}

std::size_t Core::count(Purpose purpose) const {
  return static_cast<std::size_t>(std::ranges::count(dials_, purpose, &Dialing::purpose));
}

base::LinkId Core::direct_link(const base::PeerId& peer) const {
  for (const auto& [id, link] : links_) {
    if (link.peer == peer && !link.via.valid()) return id;
  }
  return {};
}

void Core::send(base::LinkId link, wire::Message message, Outbox& out) {
  out.push_back(Send{link, std::move(message)});
}

void Core::hold(base::LinkId link, int change, Outbox& out) {
  const auto found = links_.find(link);
  if (found == links_.end()) return;
  const bool before = found->second.holds > 0;
  found->second.holds += change;
  const bool after = found->second.holds > 0;
  if (before != after) out.push_back(Hold{link, after});
}

std::optional<base::Time> Core::next_deadline() const {
  base::Earliest next;
  next.add(ask_at_);
  for (const Witness& witness : witnesses_) next.add(witness.until);
  for (const Dialing& dialing : dials_) next.add(dialing.answer_by);
  for (const auto& [key, attempt] : attempts_) {
    next.add(attempt.next_at);
    next.add(attempt.punch_at);
    next.add(attempt.expires);
  }
  for (const Introduced& entry : introduced_) next.add(entry.until);
  for (const auto& [link, upgrade] : upgrades_) next.add(upgrade.at);
  for (const auto& [key, relayed] : relayed_) next.add(relayed.answer_by);
  return next.value();
}

void Core::add_bounds(base::Bounds& out) const {
  out.add("links that reach knows", links_.size(), kLinksMax);
  out.add("dials that reach waits for", dials_.size(), kDialsMax);
  out.add("dials for others", count(Purpose::back) + count(Purpose::probe), kBacksMax);
  out.add("dials back", count(Purpose::probe), kProbesMax);
  out.add("witnesses", witnesses_.size(), kWitnesses);
  out.add("networks of witnesses", networks_.size(), kWitnesses);
  out.add("members looked for", attempts_.size(), kAttemptsMax);
  out.add("members whose dials failed", failed_.size(), kFailedMax);
  out.add("members that were not met", unmet_.size(), kUnmetMax);
  out.add("members introduced to this peer", introduced_.size(), kIntroducedMax);
  out.add("relayed links", upgrades_.size(), links_.size());
  out.add("ends of circuits", ends_.size(), kCircuitEndsMax);
  out.add("circuits relayed", relayed_.size(), may_relay() ? config_.circuits : 0);
}

void Core::add_timers(base::Time now, base::Bounds& out) const {
  if (ask_at_) out.add_timer("asking to be dialed back", *ask_at_, now, kAskAgain);
  for (const Witness& witness : witnesses_) {
    out.add_timer("a witness", witness.until, now, kWitnessWait);
  }
  for (const auto& [key, attempt] : attempts_) {
    out.add_timer("the end of looking for a member", attempt.expires, now, kAttemptTime);
  }
  for (const Introduced& entry : introduced_) {
    out.add_timer("the end of an introduction", entry.until, now, kIntroducedFor);
  }
  for (const auto& [link, upgrade] : upgrades_) {
    out.add_timer("the look for a direct path", upgrade.at, now, kUpgradeMax);
  }
  for (const auto& [key, relayed] : relayed_) {
    if (relayed.answer_by) {
      out.add_timer("the answer to an offered circuit", *relayed.answer_by, now, kOfferWait);
    }
  }
}

}  // namespace starling::reach
