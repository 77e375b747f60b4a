// Core: wanted members that cannot be dialed directly, and members that want this peer.
#include <algorithm>

#include "base/ip.hpp"
#include "base/simulated.hpp"
#include "reach/core.hpp"
#include "reach/network.hpp"

namespace starling::reach {

using wire::Introduce;
using wire::IntroduceKind;
using wire::Reachability;

bool Core::needs_help(const base::PeerId& peer, const Members& members, base::Time now) const {
  const auto failed = failed_.find(peer);
  if (failed != failed_.end() && failed->second > now) return true;
  const wire::MemberRecord* record = members.find(peer);
  return record != nullptr && record->reach == Reachability::dials_only;
}

// Addresses at which to meet a member: the one at which another member sees it, and at that host
// the port that it listens on, which a router may have kept. If the member can be dialed, its
// record's first address.
std::vector<std::string> Core::candidates(const wire::MemberRecord& record,
                                          const std::string& observed) const {
  std::vector<std::string> all;
  const auto add = [&](std::string address) {
    if (all.size() < kCandidates && std::ranges::find(all, address) == all.end()) {
      all.push_back(std::move(address));
    }
  };
  const auto seen = host_port(observed);
  if (record.reach == Reachability::reachable && !record.addresses.empty()) {
    add(record.addresses.front());
  }
  if (seen) {
    add(base::to_address(seen->host, seen->port));
    const auto listens = record.addresses.empty() ? std::nullopt : host_port(record.addresses[0]);
    if (listens) add(base::to_address(seen->host, listens->port));
  }
  return all;
}

// Asks all direct links for a link with the wanted member; a member that has one passes it on.
void Core::ask(Attempts::iterator at, base::Time now, Outbox& out) {
  Attempt& attempt = at->second;
  attempt.stage = Stage::asking;
  attempt.nonce = rng_() | 1;
  attempt.asked_at = now;
  attempt.next_at = now + kAskWait;
  std::vector<base::LinkId> links;
  for (const auto& [id, link] : links_) {
    if (!link.via.valid() && link.peer != attempt.peer) links.push_back(id);
  }
  base::shuffle(links, rng_);
  if (links.size() > kAskedMax) links.resize(kAskedMax);
  attempt.unanswered = links.size();
  for (const base::LinkId link : links) {
    send(link, Introduce{.kind = IntroduceKind::ask, .nonce = attempt.nonce, .other = attempt.peer},
         out);
  }
  if (links.empty()) {
    if (attempt.text.empty()) attempt.text = "it cannot be dialed, and no other member is linked";
    give_up(at, now, out);
  }
}

void Core::on_message(base::LinkId from, const Introduce& message, const Members& members,
                      base::Time now, Outbox& out) {
  Link& link = links_.at(from);
  if (link.via.valid()) return;
  const bool starts = message.kind == IntroduceKind::ask || message.kind == IntroduceKind::go;
  if (starts && !link.introductions.take(now)) return;
  if (message.kind == IntroduceKind::absent) {
    if (!message.passed_on) on_answer(from, message, members, now, out);
    return;
  }
  if (!message.passed_on) return pass_on(from, message, now, out);
  const wire::MemberRecord* other = members.find(message.other);
  if (other == nullptr || message.other == self_ || message.other == link.peer) return;
  if (message.kind == IntroduceKind::ask) return on_asked(from, message, *other, now, out);
  if (message.kind == IntroduceKind::go) return on_go(from, message, *other, now, out);
  on_answer(from, message, members, now, out);
}

// The member in common: it names the sender, and the address at which it sees the sender.
void Core::pass_on(base::LinkId from, const Introduce& message, base::Time, Outbox& out) {
  const Link& link = links_.at(from);
  const base::LinkId to = message.other == link.peer ? base::LinkId{} : direct_link(message.other);
  if (!to.valid() || SIM_BUG(introduced_never)) {
    if (message.kind != IntroduceKind::ask) return;
    return send(
        from,
        Introduce{.kind = IntroduceKind::absent, .nonce = message.nonce, .other = message.other},
        out);
  }
  send(to,
       Introduce{.kind = message.kind,
                 .passed_on = true,
                 .nonce = message.nonce,
                 .other = link.peer,
                 .observed = link.observed,
                 .load = load()},
       out);
}

// Somebody wants a link with this peer and cannot dial it.
void Core::on_asked(base::LinkId from, const Introduce& message, const wire::MemberRecord& asker,
                    base::Time now, Outbox& out) {
  for (auto at = attempts_.begin(); at != attempts_.end(); ++at) {
    if (at->second.peer != asker.id || at->second.stage == Stage::direct) continue;
    // Both ask for each other: the smaller id leads.
    if (self_ < asker.id) return;
    at->second.text = "it asks for a link with this peer itself";
    give_up(at, now, out);
    break;
  }
  // The record says that this peer can be dialed, or the asker has an old record.
  if (reach_ == Reachability::reachable && (!asked_ || now >= *asked_ + kAskAgainMin)) {
    networks_.clear();
    ask_soon(now, kGather);
  }
  const auto again = std::ranges::find_if(introduced_, [&](const Introduced& entry) {
    return entry.peer == asker.id && entry.nonce == message.nonce;
  });
  const bool first = again == introduced_.end();
  if (first && introduced_.size() >= kIntroducedMax) return;
  // The answer goes through every member in common, so that the asker may choose.
  introduced_.push_back({.peer = asker.id,
                         .link = from,
                         .nonce = message.nonce,
                         .observed = message.observed,
                         .until = now + kIntroducedFor});
  if (introduced_.size() > kIntroducedMax) introduced_.erase(introduced_.begin());
  send(from, Introduce{.kind = IntroduceKind::answer, .nonce = message.nonce, .other = asker.id},
       out);
  if (!first || asker.reach != Reachability::reachable || asker.addresses.empty()) return;
  if (!backs_.take(now)) return;
  dial({.purpose = Purpose::back,
        .address = asker.addresses.front(),
        .peer = asker.id,
        .nonce = message.nonce},
       DialKind::direct, out);
}

void Core::on_go(base::LinkId from, const Introduce& message, const wire::MemberRecord& asker,
                 base::Time now, Outbox& out) {
  const auto found = std::ranges::find_if(introduced_, [&](const Introduced& entry) {
    return entry.link == from && entry.peer == asker.id && entry.nonce == message.nonce;
  });
  if (found == introduced_.end() || found->goes >= kTries) return;
  ++found->goes;
  // Its router may have given it another port meanwhile.
  if (!message.observed.empty()) found->observed = message.observed;
  for (std::string& address : candidates(asker, found->observed)) {
    if (!backs_.take(now)) return;
    dial({.purpose = Purpose::back,
          .address = std::move(address),
          .peer = asker.id,
          .nonce = message.nonce},
         DialKind::punch, out);
  }
}

void Core::on_answer(base::LinkId from, const Introduce& message, const Members& members,
                     base::Time now, Outbox& out) {
  const auto at = std::ranges::find_if(attempts_, [&](const auto& entry) {
    return entry.second.nonce == message.nonce && entry.second.peer == message.other;
  });
  if (at == attempts_.end() || message.nonce == 0) return;
  Attempt& attempt = at->second;
  if (attempt.unanswered > 0) --attempt.unanswered;
  if (message.kind == IntroduceKind::absent) {
    if (attempt.stage != Stage::asking || attempt.unanswered > 0) return;
    if (attempt.text.empty()) {
      attempt.text =
          "it cannot be dialed, and no member that this peer is linked with is linked "
          "with it";
    }
    return give_up(at, now, out);
  }
  const bool known = std::ranges::any_of(attempt.commons,
                                         [&](const Common& common) { return common.link == from; });
  if (known || attempt.commons.size() >= kAskedMax) return;
  attempt.commons.push_back(
      {.link = from,
       .round_trip = std::min<base::Duration>(now - attempt.asked_at, kRoundTripMax),
       .load = message.load});
  if (attempt.stage != Stage::asking) return;
  // The first to answer is the nearest.
  attempt.observed = message.observed;
  attempt.stage = Stage::meeting;
  next_try(at, members, now, out);
}

// A later search for a direct path gets one try.
bool Core::is_tried(const Attempt& attempt, base::Time now) {
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
void Core::next_try(Attempts::iterator at, const Members& members, base::Time now, Outbox& out) {
  Attempt& attempt = at->second;
  if (is_tried(attempt, now)) return call_relay(at, now, out);
  ++attempt.tries;
  attempt.next_at = now + kTryTime;
  if (reach_ == Reachability::reachable && attempt.tries == 1) return;
  const Common& common = attempt.commons.front();
  if (!links_.contains(common.link)) return call_relay(at, now, out);
  send(common.link,
       Introduce{.kind = IntroduceKind::go, .nonce = attempt.nonce, .other = attempt.peer}, out);
  attempt.punch_at = now + common.round_trip / 2;
  attempt.next_at = *attempt.punch_at + kTryTime + 4 * common.round_trip;
  if (*attempt.punch_at == now) punch(at, members, out);
}

void Core::punch(Attempts::iterator at, const Members& members, Outbox& out) {
  Attempt& attempt = at->second;
  attempt.punch_at.reset();
  const wire::MemberRecord* record = members.find(attempt.peer);
  if (record == nullptr) return;
  for (std::string& address : candidates(*record, attempt.observed)) {
    dial({.purpose = Purpose::meet, .address = std::move(address), .peer = attempt.peer},
         DialKind::punch, out);
  }
}

void Core::give_up(Attempts::iterator at, base::Time now, Outbox& out) {
  Attempt& attempt = at->second;
  if (!attempt.dialing) return fail(at, false, now, out);
  attempt.stage = Stage::direct;
  attempt.next_at.reset();
  attempt.punch_at.reset();
}

void Core::fail(Attempts::iterator at, bool own, base::Time, Outbox& out) {
  const std::string address = at->first;
  const Attempt attempt = std::move(at->second);
  attempts_.erase(at);
  for (Dialing& dialing : dials_) {
    if (dialing.purpose == Purpose::want && dialing.address == address) dialing.told = true;
  }
  if (attempt.stage == Stage::opening) {
    if (ends_.erase(attempt.circuit) > 0) {
      out.push_back(EndCircuit{attempt.circuit.first, attempt.circuit.second});
      hold(attempt.circuit.first, -1, out);
    }
  }
  if (!attempt.upgrade) out.push_back(Failed{address, attempt.text, own, attempt.no_route});
}

// A link with a wanted member: nothing else is tried. A dial that is still under way has its own
// outcome.
void Core::end_attempts(const LinkReady& link, base::Time now, Outbox& out) {
  for (auto at = attempts_.begin(); at != attempts_.end();) {
    const auto here = at++;
    Attempt& attempt = here->second;
    if (attempt.peer != link.peer || (attempt.upgrade && link.via.valid())) continue;
    if (here->first == link.address) {
      for (Dialing& dialing : dials_) {
        if (dialing.purpose == Purpose::want && dialing.address == here->first) {
          dialing.told = true;
        }
      }
      attempts_.erase(here);
      continue;
    }
    if (attempt.text.empty()) attempt.text = "it is linked by another way";
    give_up(here, now, out);
  }
}

void Core::expire_attempts(const Members& members, base::Time now, Outbox& out) {
  std::vector<std::string> keys;
  for (const auto& [key, attempt] : attempts_) keys.push_back(key);
  for (const std::string& key : keys) {
    const auto at = attempts_.find(key);
    if (at == attempts_.end()) continue;
    Attempt& attempt = at->second;
    if (attempt.expires <= now) {
      if (attempt.text.empty()) attempt.text = "no answer";
      fail(at, false, now, out);
      continue;
    }
    if (attempt.punch_at && *attempt.punch_at <= now) punch(at, members, out);
    if (!attempt.next_at || *attempt.next_at > now) continue;
    attempt.next_at.reset();
    switch (attempt.stage) {
      case Stage::direct:
        if (attempt.peer == base::PeerId{}) {
          attempt.text = "too many dials are under way";
          fail(at, false, now, out);
        } else {
          ask(at, now, out);
        }
        break;
      case Stage::asking:
        if (attempt.text.empty()) attempt.text = "no member in common has answered";
        give_up(at, now, out);
        break;
      case Stage::meeting:
        next_try(at, members, now, out);
        break;
      case Stage::calling:
        attempt.text = "the member that was to relay did not answer";
        call_relay(at, now, out);
        break;
      case Stage::opening:
        attempt.text = "no link came up over the circuit";
        fail(at, false, now, out);
        break;
    }
  }
}

// A link over a circuit looks for a direct path, more and more rarely. The end that asked does it.
void Core::look_for_direct_paths(const Members& members, base::Time now, Outbox& out) {
  for (auto& [link, upgrade] : upgrades_) {
    if (upgrade.at > now) continue;
    upgrade.pause = std::min<base::Duration>(2 * upgrade.pause, kUpgradeMax);
    upgrade.at = now + jittered_pause(upgrade.pause);
    const std::string key = "direct path to " + upgrade.peer.hex();
    const wire::MemberRecord* record = members.find(upgrade.peer);
    if (record == nullptr || attempts_.contains(key) || attempts_.size() >= kAttemptsMax) continue;
    const auto at =
        attempts_
            .emplace(key,
                     Attempt{.peer = upgrade.peer, .upgrade = true, .expires = now + kAttemptTime})
            .first;
    if (record->reach != Reachability::dials_only && !record->addresses.empty()) {
      dial({.purpose = Purpose::meet, .address = record->addresses.front(), .peer = upgrade.peer},
           DialKind::direct, out);
    }
    ask(at, now, out);
  }
}

base::Duration Core::jittered_pause(base::Duration pause) {
  return base::from_seconds(base::seconds(pause) * (0.5 + 0.5 * rng_.uniform()));
}

}  // namespace starling::reach
