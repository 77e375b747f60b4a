#include "reach/search.hpp"

#include <algorithm>
#include <utility>

#include <fmt/core.h>

#include "reach/limits.hpp"
#include "reach/network.hpp"

namespace starling::reach {

using wire::Circuit;
using wire::CircuitKind;
using wire::Introduce;
using wire::IntroduceKind;
using wire::Reachability;

void Search::want(const Want& event, const Call& call) {
  const bool has_address = host_port(event.address).has_value();
  const bool help = event.peer && (!has_address || needs_help(*event.peer, call));
  const wire::MemberRecord* record = event.peer ? call.members.find(*event.peer) : nullptr;
  // The address only works within one's own network, and there may be members in common.
  const bool useless =
      !has_address || (help && record != nullptr && record->reach == Reachability::dials_only &&
                       !parts_.own.is_own_network(event.address) && parts_.own.is_linked());
  const bool dialed = !useless && parts_.dials.start({.address = event.address, .peer = event.peer},
                                                     DialKind::direct, call.out);
  if (!event.peer || attempts_.size() >= kAttemptsMax) {
    // Not from within this call: membership has not heard of its own action yet.
    if (dialed) return;
    if (attempts_.size() >= kAttemptsMax) attempts_.erase(attempts_.begin());
  }
  Attempt attempt{.peer = event.peer.value_or(base::PeerId{}),
                  .dialing = dialed,
                  .next_at = help || !dialed ? call.now : call.now + kDirectAlone,
                  .expires = call.now + kAttemptTime};
  attempts_.insert_or_assign(event.address, std::move(attempt));
}

void Search::look_for_path(const base::PeerId& peer, const Call& call) {
  const std::string key = "direct path to " + peer.hex();
  const wire::MemberRecord* record = call.members.find(peer);
  if (record == nullptr || attempts_.contains(key) || attempts_.size() >= kAttemptsMax) return;
  Attempt attempt{.peer = peer, .upgrade = true, .expires = call.now + kAttemptTime};
  const auto at = attempts_.emplace(key, std::move(attempt)).first;
  if (record->reach != Reachability::dials_only && !record->addresses.empty()) {
    parts_.dials.start(
        {.purpose = Dialing::Purpose::meet, .address = record->addresses.front(), .peer = peer},
        DialKind::direct, call.out);
  }
  ask(at, call);
}

bool Search::needs_help(const base::PeerId& peer, const Call& call) const {
  const auto failed = failed_.find(peer);
  if (failed != failed_.end() && failed->second > call.now) return true;
  const wire::MemberRecord* record = call.members.find(peer);
  return record != nullptr && record->reach == Reachability::dials_only;
}

void Search::on_dial_failed(const std::optional<base::PeerId>& peer, const DialFailed& event,
                            const Call& call) {
  if (peer && !event.own) {
    std::erase_if(failed_, [&](const auto& entry) { return entry.second <= call.now; });
    if (failed_.size() < kFailedMax) failed_[*peer] = call.now + kFailedMemory;
  }
  const auto at = attempts_.find(event.address);
  if (at == attempts_.end()) {
    call.out.push_back(Failed{event.address, event.text, event.own, event.no_route});
    return;
  }
  at->second.dialing = false;
  at->second.text = event.text;
  at->second.no_route = event.no_route;
  if (at->second.stage == Stage::direct || event.own) fail(at, event.own, call);
}

void Search::on_answered(const Dialing& dialing, const base::PeerId& peer, base::Time now) {
  const bool as_expected = dialing.peer == peer;
  if (dialing.purpose == Dialing::Purpose::want) {
    if (as_expected) failed_.erase(peer);
    const auto at = attempts_.find(dialing.address);
    if (at == attempts_.end() || dialing.told) return;
    // Its Hello is on its way: begin nothing else meanwhile.
    if (at->second.stage == Stage::direct) at->second.next_at.reset();
    return;
  }
  for (auto& [key, attempt] : attempts_) {
    const bool waits = attempt.peer == peer && attempt.stage == Stage::meeting;
    if (waits && as_expected) attempt.next_at = now + kOpenWait;
  }
}

void Search::on_link(const LinkReady& link, const Call& call) {
  for (auto at = attempts_.begin(); at != attempts_.end();) {
    const auto here = at++;
    const Attempt& attempt = here->second;
    if (attempt.peer != link.peer || (attempt.upgrade && link.via.valid())) continue;
    if (here->first == link.address) {
      parts_.dials.set_told(here->first);
      attempts_.erase(here);
    } else {
      give_up(here, "it is linked by another way", call);
    }
  }
  if (!link.via.valid()) unmet_.erase(link.peer);
}

// Asks all direct links for a link with the wanted member; a member that has one passes it on.
void Search::ask(Attempts::iterator at, const Call& call) {
  Attempt& attempt = at->second;
  attempt.stage = Stage::asking;
  attempt.introduction.nonce = parts_.rng() | 1;
  attempt.introduction.asked_at = call.now;
  attempt.next_at = call.now + kAskWait;
  std::vector<base::LinkId> links;
  for (const auto& [id, link] : parts_.links.all()) {
    if (link.is_direct() && link.peer != attempt.peer) links.push_back(id);
  }
  base::shuffle(links, parts_.rng);
  if (links.size() > kAskedMax) links.resize(kAskedMax);
  attempt.introduction.unanswered = links.size();
  for (const base::LinkId link : links) {
    call.send(link, Introduce{.kind = IntroduceKind::ask,
                              .nonce = attempt.introduction.nonce,
                              .other = attempt.peer});
  }
  if (links.empty()) give_up(at, "it cannot be dialed, and no other member is linked", call);
}

void Search::on_introduced(base::LinkId from, const Introduce& answer, const Call& call) {
  const auto at = std::ranges::find_if(attempts_, [&](const auto& entry) {
    return entry.second.introduction.nonce == answer.nonce && entry.second.peer == answer.other;
  });
  if (at == attempts_.end() || answer.nonce == 0) return;
  Attempt& attempt = at->second;
  Introduction& introduction = attempt.introduction;
  if (introduction.unanswered > 0) --introduction.unanswered;
  if (answer.kind == IntroduceKind::absent) {
    if (attempt.stage != Stage::asking || introduction.unanswered > 0) return;
    return give_up(at,
                   "it cannot be dialed, and no member that this peer is linked with is linked "
                   "with it",
                   call);
  }
  const bool known =
      std::ranges::find(introduction.commons, from, &Common::link) != introduction.commons.end();
  if (known || introduction.commons.size() >= kAskedMax) return;
  introduction.commons.push_back(
      {.link = from,
       .round_trip = std::min<base::Duration>(call.now - introduction.asked_at, kRoundTripMax),
       .load = answer.load});
  if (attempt.stage != Stage::asking) return;
  // The first to answer is the nearest.
  introduction.observed = answer.observed;
  attempt.stage = Stage::meeting;
  next_try(at, call);
}

bool Search::leads(const base::PeerId& other, const Call& call) {
  const auto at = std::ranges::find_if(attempts_, [&](const auto& entry) {
    return entry.second.peer == other && entry.second.stage != Stage::direct;
  });
  if (at == attempts_.end()) return false;
  if (parts_.self < other) return true;
  at->second.text = "it asks for a link with this peer itself";
  give_up(at, "", call);
  return false;
}

// A later search for a direct path gets one try.
bool Search::is_tried(const Attempt& attempt, base::Time now) {
  if (attempt.upgrade) return attempt.tries == 1;
  if (attempt.tries == kTries) {
    std::erase_if(unmet_, [&](const auto& entry) { return entry.second <= now; });
    if (unmet_.size() < kUnmetMax) unmet_[attempt.peer] = now + kUnmetMemory;
    return true;
  }
  const auto unmet = unmet_.find(attempt.peer);
  return attempt.tries == 0 && unmet != unmet_.end() && unmet->second > now;
}

// An asker that can be dialed is dialed back without a word; otherwise both dial simultaneously.
void Search::next_try(Attempts::iterator at, const Call& call) {
  Attempt& attempt = at->second;
  if (is_tried(attempt, call.now)) return call_relay(at, call);
  ++attempt.tries;
  attempt.next_at = call.now + kTryTime;
  if (parts_.own.is_reachable() && attempt.tries == 1) return;
  const Common& common = attempt.introduction.commons.front();
  if (!parts_.links.contains(common.link)) return call_relay(at, call);
  call.send(common.link, Introduce{.kind = IntroduceKind::go,
                                   .nonce = attempt.introduction.nonce,
                                   .other = attempt.peer});
  attempt.punch_at = call.now + common.round_trip / 2;
  attempt.next_at = *attempt.punch_at + kTryTime + 4 * common.round_trip;
  if (*attempt.punch_at == call.now) punch(attempt, call);
}

void Search::punch(Attempt& attempt, const Call& call) {
  attempt.punch_at.reset();
  const wire::MemberRecord* record = call.members.find(attempt.peer);
  if (record == nullptr) return;
  for (std::string& address : meeting_places(*record, attempt.introduction.observed)) {
    parts_.dials.start(
        {.purpose = Dialing::Purpose::meet, .address = std::move(address), .peer = attempt.peer},
        DialKind::punch, call.out);
  }
}

// The nearest of the members that are linked with both; a loaded one counts as farther away.
void Search::call_relay(Attempts::iterator at, const Call& call) {
  Attempt& attempt = at->second;
  Common* best = nullptr;
  const auto cost = [](const Common& common) {
    return base::seconds(common.round_trip) * (64 + common.load);
  };
  for (Common& common : attempt.introduction.commons) {
    const bool may = !common.called && common.load != wire::kLoadFull;
    if (!may || !parts_.links.contains(common.link)) continue;
    if (best == nullptr || cost(common) < cost(*best)) best = &common;
  }
  if (best == nullptr || attempt.upgrade || !parts_.circuits.may_open()) {
    return give_up(at, "no direct path, and no member that relays", call);
  }
  best->called = true;
  attempt.stage = Stage::calling;
  attempt.next_at = call.now + kCallWait;
  attempt.circuit = parts_.circuits.draw_name(best->link);
  call.send(
      best->link,
      Circuit{.kind = CircuitKind::ask, .number = attempt.circuit.number, .other = attempt.peer});
}

Search::Attempts::iterator Search::attempt_over(const CircuitName& name, Stage stage) {
  return std::ranges::find_if(attempts_, [&](const auto& entry) {
    return entry.second.stage == stage && entry.second.circuit == name;
  });
}

void Search::on_relay_accepts(const CircuitName& name, const Call& call) {
  const auto at = attempt_over(name, Stage::calling);
  if (at == attempts_.end()) {
    // Too late: it is no longer wanted.
    if (!parts_.circuits.is_named(name)) {
      Circuits::refuse(name, wire::CircuitRefusal::unwanted, call);
    }
    return;
  }
  Attempt& attempt = at->second;
  attempt.stage = Stage::opening;
  attempt.next_at = call.now + kOpenWait;
  attempt.expires = std::max(attempt.expires, *attempt.next_at);
  parts_.circuits.open(name, attempt.peer, true, call.out);
}

void Search::on_relay_refuses(const CircuitName& name, wire::CircuitRefusal reason,
                              const Call& call) {
  const auto at = attempt_over(name, Stage::calling);
  if (at == attempts_.end()) return;
  at->second.text =
      fmt::format("no direct path, and {} relays nothing for it: {}",
                  parts_.links.all().at(name.link).peer.brief(), wire::to_string(reason));
  call_relay(at, call);
}

void Search::on_circuit_ended(const CircuitName& name, const Call& call) {
  const auto at = attempt_over(name, Stage::opening);
  if (at == attempts_.end()) return;
  at->second.text = "no link came up over the circuit";
  call_relay(at, call);
}

void Search::give_up(Attempts::iterator at, const char* text, const Call& call) {
  Attempt& attempt = at->second;
  if (attempt.text.empty()) attempt.text = text;
  if (!attempt.dialing) return fail(at, false, call);
  attempt.stage = Stage::direct;
  attempt.next_at.reset();
  attempt.punch_at.reset();
}

void Search::fail(Attempts::iterator at, bool own, const Call& call) {
  const std::string address = at->first;
  const Attempt attempt = std::move(at->second);
  attempts_.erase(at);
  parts_.dials.set_told(address);
  if (attempt.stage == Stage::opening) parts_.circuits.end(attempt.circuit, call.out);
  if (!attempt.upgrade) call.out.push_back(Failed{address, attempt.text, own, attempt.no_route});
}

void Search::expire(const Call& call) {
  for (auto at = attempts_.begin(); at != attempts_.end();) {
    const auto here = at++;  // it may end
    Attempt& attempt = here->second;
    if (attempt.expires <= call.now) {
      if (attempt.text.empty()) attempt.text = "no answer";
      fail(here, false, call);
      continue;
    }
    if (attempt.punch_at && *attempt.punch_at <= call.now) punch(attempt, call);
    if (attempt.next_at && *attempt.next_at <= call.now) next_step(here, call);
  }
}

void Search::next_step(Attempts::iterator at, const Call& call) {
  Attempt& attempt = at->second;
  attempt.next_at.reset();
  switch (attempt.stage) {
    case Stage::direct:
      if (attempt.peer != base::PeerId{}) return ask(at, call);
      attempt.text = "too many dials are under way";
      return fail(at, false, call);
    case Stage::asking:
      return give_up(at, "no member in common has answered", call);
    case Stage::meeting:
      return next_try(at, call);
    case Stage::calling:
      attempt.text = "the member that was to relay did not answer";
      return call_relay(at, call);
    case Stage::opening:
      attempt.text = "no link came up over the circuit";
      return fail(at, false, call);
  }
}

std::string Search::address_of(const base::PeerId& peer) const {
  for (const auto& [address, attempt] : attempts_) {
    if (attempt.peer == peer && !attempt.upgrade && attempt.stage != Stage::direct) return address;
  }
  return {};
}

}  // namespace starling::reach
