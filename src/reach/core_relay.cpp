// Core: circuits, as one of their ends and as the relay.
#include <algorithm>

#include <fmt/core.h>

#include "base/simulated.hpp"
#include "reach/core.hpp"

namespace starling::reach {

using wire::Circuit;
using wire::CircuitKind;
using wire::CircuitRefusal;

// At most 254 of 255 while there is room.
std::uint8_t Core::load() const {
  if (!relays() || relayed_.size() >= config_.circuits) return wire::kLoadFull;
  return static_cast<std::uint8_t>(relayed_.size() * (wire::kLoadFull - 1) / config_.circuits);
}

bool Core::is_named(const CircuitKey& key) const {
  return ends_.contains(key) || relayed_.contains(key) ||
         std::ranges::any_of(relayed_, [&](const auto& entry) { return entry.second.b == key; });
}

std::uint32_t Core::draw_number(base::LinkId link) {
  for (;;) {
    const auto number = static_cast<std::uint32_t>(rng_());
    if (!is_named({link, number})) return number;
  }
}

void Core::refuse(base::LinkId to, std::uint32_t number, CircuitRefusal reason, Outbox& out) {
  send(to, Circuit{.kind = CircuitKind::refuse, .number = number, .reason = reason}, out);
}

void Core::drop_relayed(RelayedCircuits::iterator at, Outbox& out) {
  hold(at->first.first, -1, out);
  hold(at->second.b.first, -1, out);
  relayed_.erase(at);
}

Core::Attempts::iterator Core::attempt_over(const CircuitKey& key, Stage stage) {
  return std::ranges::find_if(attempts_, [&](const auto& entry) {
    return entry.second.stage == stage && entry.second.circuit == key;
  });
}

// The nearest of the members that are linked with both; a loaded one counts as farther away.
void Core::call_relay(Attempts::iterator at, base::Time now, Outbox& out) {
  Attempt& attempt = at->second;
  Common* best = nullptr;
  const auto cost = [](const Common& common) {
    return base::seconds(common.round_trip) * (64 + common.load);
  };
  for (Common& common : attempt.commons) {
    if (common.called || common.load == wire::kLoadFull || !links_.contains(common.link)) continue;
    if (best == nullptr || cost(common) < cost(*best)) best = &common;
  }
  const bool may = secure_ && !retired_ && !attempt.upgrade && ends_.size() < kCircuitEndsMax;
  if (best == nullptr || !may) {
    if (attempt.text.empty()) attempt.text = "no direct path, and no member that relays";
    return give_up(at, now, out);
  }
  best->called = true;
  attempt.stage = Stage::calling;
  attempt.next_at = now + kCallWait;
  attempt.circuit = {best->link, draw_number(best->link)};
  send(best->link,
       Circuit{.kind = CircuitKind::ask, .number = attempt.circuit.second, .other = attempt.peer},
       out);
}

void Core::on_message(base::LinkId from, const Circuit& message, const Members& members,
                      base::Time now, Outbox& out) {
  if (links_.at(from).via.valid()) return;  // no circuit in a circuit
  switch (message.kind) {
    case CircuitKind::ask:
      return on_circuit_ask(from, message, now, out);
    case CircuitKind::offer:
      return on_circuit_offer(from, message, members, out);
    case CircuitKind::accept:
      return on_circuit_accept(from, message.number, now, out);
    case CircuitKind::refuse:
      return on_circuit_refuse(from, message, now, out);
    case CircuitKind::none:
      break;
  }
}

CircuitRefusal Core::refusal_of(base::LinkId from, const Circuit& ask, base::Time now) {
  Link& link = links_.at(from);
  if (!relays()) return CircuitRefusal::off;
  if (!link.introductions.take(now) || is_named({from, ask.number})) return CircuitRefusal::busy;
  if (ask.other == link.peer || !direct_link(ask.other).valid()) return CircuitRefusal::absent;
  if (SIM_BUG(circuits_unlimited)) return CircuitRefusal::none;
  const auto own =
      std::ranges::count_if(relayed_, [&](const auto& entry) { return entry.first.first == from; });
  const bool full =
      relayed_.size() >= config_.circuits || own >= static_cast<std::ptrdiff_t>(kCircuitsOfOne);
  return full ? CircuitRefusal::full : CircuitRefusal::none;
}

void Core::on_circuit_ask(base::LinkId from, const Circuit& ask, base::Time now, Outbox& out) {
  const CircuitRefusal refusal = refusal_of(from, ask, now);
  if (refusal != CircuitRefusal::none) {
    return refuse(from, ask.number, refusal, out);
  }
  const base::LinkId to = direct_link(ask.other);
  const CircuitKey b{to, draw_number(to)};
  relayed_[{from, ask.number}] = {.b = b, .answer_by = now + kOfferWait};
  hold(from, 1, out);
  hold(to, 1, out);
  send(to, Circuit{.kind = CircuitKind::offer, .number = b.second, .other = links_.at(from).peer},
       out);
}

void Core::on_circuit_offer(base::LinkId from, const Circuit& offer, const Members& members,
                            Outbox& out) {
  const CircuitKey key{from, offer.number};
  const bool takes = secure_ && !retired_ && offer.other != self_ &&
                     offer.other != links_.at(from).peer && members.find(offer.other) != nullptr &&
                     !is_named(key) && ends_.size() < kCircuitEndsMax;
  if (!takes) {
    return refuse(from, offer.number, CircuitRefusal::unwanted, out);
  }
  ends_[key] = {.peer = offer.other, .dialer = false};
  hold(from, 1, out);
  // The other end begins, so nothing comes before this end is ready for it.
  out.push_back(OpenCircuit{from, offer.number, offer.other, false});
  send(from, Circuit{.kind = CircuitKind::accept, .number = offer.number}, out);
}

// From the target, at the relay; or from the relay, at the asker.
void Core::on_circuit_accept(base::LinkId from, std::uint32_t number, base::Time now, Outbox& out) {
  const CircuitKey key{from, number};
  for (auto& [a, relayed] : relayed_) {
    if (relayed.b != key || !relayed.answer_by) continue;
    relayed.answer_by.reset();
    out.push_back(Relay{a.first, a.second, from, number});
    send(a.first, Circuit{.kind = CircuitKind::accept, .number = a.second}, out);
    return;
  }
  const auto at = attempt_over(key, Stage::calling);
  if (at == attempts_.end()) {
    // Too late: it is no longer wanted.
    if (!is_named(key)) {
      refuse(from, number, CircuitRefusal::unwanted, out);
    }
    return;
  }
  Attempt& attempt = at->second;
  attempt.stage = Stage::opening;
  attempt.next_at = now + kOpenWait;
  attempt.expires = std::max(attempt.expires, *attempt.next_at);
  ends_[key] = {.peer = attempt.peer, .dialer = true};
  hold(from, 1, out);
  out.push_back(OpenCircuit{from, number, attempt.peer, true});
}

void Core::on_circuit_refuse(base::LinkId from, const Circuit& refusal, base::Time now,
                             Outbox& out) {
  const CircuitKey key{from, refusal.number};
  for (auto at = relayed_.begin(); at != relayed_.end(); ++at) {
    const auto& [a, relayed] = *at;
    if (a != key && relayed.b != key) continue;
    if (!relayed.answer_by) {
      out.push_back(EndCircuit{a.first, a.second});  // causes CircuitEnded
      return;
    }
    if (relayed.b == key) {
      refuse(a.first, a.second, refusal.reason, out);
    }
    drop_relayed(at, out);
    return;
  }
  // The relay does not know it, or the other end no longer wants it.
  if (ends_.contains(key)) return out.push_back(EndCircuit{from, refusal.number});
  const auto at = attempt_over(key, Stage::calling);
  if (at == attempts_.end()) return;
  at->second.text = fmt::format("no direct path, and {} relays nothing for it: {}",
                                links_.at(from).peer.brief(), wire::to_string(refusal.reason));
  call_relay(at, now, out);
}

void Core::end_late_offers(base::Time now, Outbox& out) {
  for (auto at = relayed_.begin(); at != relayed_.end();) {
    const auto here = at++;
    const auto& [a, relayed] = *here;
    if (!relayed.answer_by || *relayed.answer_by > now) continue;
    refuse(a.first, a.second, CircuitRefusal::unwanted, out);
    drop_relayed(here, out);
  }
}

// Circuits that already carry something end with the link, and are reported.
void Core::forget_offers_of(base::LinkId link, Outbox& out) {
  for (auto at = relayed_.begin(); at != relayed_.end();) {
    const auto here = at++;
    const auto& [a, relayed] = *here;
    const bool concerned = a.first == link || relayed.b.first == link;
    if (!relayed.answer_by || !concerned) continue;
    if (a.first != link) {
      refuse(a.first, a.second, CircuitRefusal::absent, out);
    }
    drop_relayed(here, out);
  }
}

// Otherwise, two peers that each relay for a link of the other would wait for each other.
void Core::on(const Retire&, const Members&, base::Time, Outbox& out) {
  retired_ = true;
  for (const auto& [key, end] : ends_) out.push_back(EndCircuit{key.first, key.second});
}

void Core::on(const CircuitEnded& event, const Members&, base::Time now, Outbox& out) {
  const CircuitKey key{event.link, event.number};
  if (ends_.erase(key) > 0) {
    hold(event.link, -1, out);
    const auto at = attempt_over(key, Stage::opening);
    if (at == attempts_.end()) return;
    at->second.text = "no link came up over the circuit";
    call_relay(at, now, out);
    return;
  }
  const auto found = std::ranges::find_if(
      relayed_, [&](const auto& entry) { return entry.first == key || entry.second.b == key; });
  if (found == relayed_.end()) return;
  relayed_bytes_ += event.bytes;
  drop_relayed(found, out);
}

}  // namespace starling::reach
