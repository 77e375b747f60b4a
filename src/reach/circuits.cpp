#include "reach/circuits.hpp"

#include <algorithm>

#include "base/simulated.hpp"

namespace starling::reach {

using wire::Circuit;
using wire::CircuitKind;
using wire::CircuitRefusal;

// At most 254 of 255 while there is room.
std::uint8_t Circuits::load() const {
  if (!may_relay() || retired_ || relayed_.size() >= config_.circuits) return wire::kLoadFull;
  return static_cast<std::uint8_t>(relayed_.size() * (wire::kLoadFull - 1) / config_.circuits);
}

bool Circuits::is_named(const CircuitName& name) const {
  return ends_.contains(name) || relayed_.contains(name) ||
         std::ranges::any_of(relayed_, [&](const auto& entry) { return entry.second.b == name; });
}

CircuitName Circuits::draw_name(base::LinkId link) {
  for (;;) {
    const CircuitName name{link, static_cast<std::uint32_t>(rng_())};
    if (!is_named(name)) return name;
  }
}

void Circuits::refuse(const CircuitName& name, CircuitRefusal reason, const Call& call) {
  call.send(name.link,
            Circuit{.kind = CircuitKind::refuse, .number = name.number, .reason = reason});
}

void Circuits::drop(RelayedCircuits::iterator at, Outbox& out) {
  links_.hold(at->first.link, -1, out);
  links_.hold(at->second.b.link, -1, out);
  relayed_.erase(at);
}

Circuits::RelayedCircuits::iterator Circuits::find(const CircuitName& leg) {
  return std::ranges::find_if(
      relayed_, [&](const auto& entry) { return entry.first == leg || entry.second.b == leg; });
}

CircuitRefusal Circuits::refusal_of(base::LinkId from, const Circuit& ask, base::Time now) {
  Link& link = links_.at(from);
  if (!may_relay() || retired_) return CircuitRefusal::off;
  if (!link.introductions.take(now) || is_named({from, ask.number})) return CircuitRefusal::busy;
  if (ask.other == link.peer || !links_.direct(ask.other).valid()) return CircuitRefusal::absent;
  if (SIM_BUG(circuits_unlimited)) return CircuitRefusal::none;
  const auto own =
      std::ranges::count_if(relayed_, [&](const auto& entry) { return entry.first.link == from; });
  const bool full =
      relayed_.size() >= config_.circuits || own >= static_cast<std::ptrdiff_t>(kCircuitsOfOne);
  return full ? CircuitRefusal::full : CircuitRefusal::none;
}

void Circuits::on_ask(base::LinkId from, const Circuit& ask, const Call& call) {
  const CircuitName a{from, ask.number};
  const CircuitRefusal refusal = refusal_of(from, ask, call.now);
  if (refusal != CircuitRefusal::none) return refuse(a, refusal, call);
  const CircuitName b = draw_name(links_.direct(ask.other));
  relayed_[a] = {.b = b, .answer_by = call.now + kOfferWait};
  links_.hold(a.link, 1, call.out);
  links_.hold(b.link, 1, call.out);
  call.send(b.link,
            Circuit{.kind = CircuitKind::offer, .number = b.number, .other = links_.at(from).peer});
}

void Circuits::on_offer(base::LinkId from, const Circuit& offer, const Call& call) {
  const CircuitName name{from, offer.number};
  const bool takes = may_open() && offer.other != self_ && offer.other != links_.at(from).peer &&
                     call.members.find(offer.other) != nullptr && !is_named(name);
  if (!takes) return refuse(name, CircuitRefusal::unwanted, call);
  // The other end begins, so nothing comes before this end is ready for it.
  open(name, offer.other, false, call.out);
  call.send(from, Circuit{.kind = CircuitKind::accept, .number = offer.number});
}

bool Circuits::on_accept(const CircuitName& name, const Call& call) {
  for (auto& [a, relayed] : relayed_) {
    if (relayed.b != name || !relayed.answer_by) continue;
    relayed.answer_by.reset();
    call.out.push_back(Relay{a.link, a.number, name.link, name.number});
    call.send(a.link, Circuit{.kind = CircuitKind::accept, .number = a.number});
    return true;
  }
  return false;
}

bool Circuits::on_refuse(const CircuitName& name, CircuitRefusal reason, const Call& call) {
  if (const auto at = find(name); at != relayed_.end()) {
    const auto& [a, relayed] = *at;
    if (!relayed.answer_by) {
      call.out.push_back(EndCircuit{a.link, a.number});  // causes CircuitEnded
      return true;
    }
    if (relayed.b == name) refuse(a, reason, call);
    drop(at, call.out);
    return true;
  }
  // The relay does not know it, or the other end no longer wants it.
  if (!ends_.contains(name)) return false;
  call.out.push_back(EndCircuit{name.link, name.number});
  return true;
}

bool Circuits::on_ended(const CircuitEnded& event, Outbox& out) {
  const CircuitName name{event.link, event.number};
  if (ends_.erase(name) > 0) {
    links_.hold(event.link, -1, out);
    return true;
  }
  if (const auto found = find(name); found != relayed_.end()) {
    relayed_bytes_ += event.bytes;
    drop(found, out);
  }
  return false;
}

void Circuits::on_link_lost(base::LinkId link, const Call& call) {
  for (auto at = relayed_.begin(); at != relayed_.end();) {
    const auto here = at++;
    const auto& [a, relayed] = *here;
    const bool concerned = a.link == link || relayed.b.link == link;
    if (!relayed.answer_by || !concerned) continue;
    if (a.link != link) refuse(a, CircuitRefusal::absent, call);
    drop(here, call.out);
  }
}

// Otherwise, two peers that each relay for a link of the other would wait for each other.
void Circuits::retire(Outbox& out) {
  retired_ = true;
  for (const CircuitName& name : ends_) out.push_back(EndCircuit{name.link, name.number});
}

void Circuits::expire(const Call& call) {
  for (auto at = relayed_.begin(); at != relayed_.end();) {
    const auto here = at++;
    const auto& [a, relayed] = *here;
    if (!relayed.answer_by || *relayed.answer_by > call.now) continue;
    refuse(a, CircuitRefusal::unwanted, call);
    drop(here, call.out);
  }
}

bool Circuits::may_open() const noexcept {
  return secure_ && !retired_ && ends_.size() < kCircuitEndsMax;
}

void Circuits::open(const CircuitName& name, const base::PeerId& peer, bool dialer, Outbox& out) {
  ends_.insert(name);
  links_.hold(name.link, 1, out);
  out.push_back(OpenCircuit{name.link, name.number, peer, dialer});
}

void Circuits::end(const CircuitName& name, Outbox& out) {
  if (ends_.erase(name) == 0) return;
  out.push_back(EndCircuit{name.link, name.number});
  links_.hold(name.link, -1, out);
}

}  // namespace starling::reach
