#include "reach/core.hpp"

#include <utility>
#include <variant>

#include "base/overloaded.hpp"

namespace starling::reach {

Core::Core(const Config& config, const base::PeerId& self, std::vector<std::string> addresses,
           bool secure, base::Rng rng)
    : self_(self),
      rng_(rng),
      own_(std::move(addresses), links_, rng_),
      dial_backs_(links_, dials_),
      circuits_(config, secure, self_, links_, rng_),
      search_({.self = self_,
               .links = links_,
               .dials = dials_,
               .own = own_,
               .circuits = circuits_,
               .rng = rng_}),
      introductions_({.self = self_,
                      .links = links_,
                      .dials = dials_,
                      .own = own_,
                      .circuits = circuits_,
                      .search = search_}),
      direct_paths_(search_, rng_) {}

void Core::handle(const Event& event, const Members& members, base::Time now, Outbox& out) {
  const Call call{members, now, out};
  std::visit([&](const auto& value) { on(value, call); }, event);
}

void Core::expire(const Members& members, base::Time now, Outbox& out) {
  const Call call{members, now, out};
  dial_backs_.expire(call);
  own_.expire(call);
  search_.expire(call);
  introductions_.expire(now);
  direct_paths_.expire(call);
  circuits_.expire(call);
}

void Core::on(const LinkReady& event, const Call& call) {
  links_.add(event);
  search_.on_link(event, call);
  direct_paths_.on_link(event, call.now);
  if (!event.via.valid()) own_.on_link(call.now);
}

void Core::on(const LinkLost& event, const Call& call) {
  if (!links_.erase(event.link)) return;
  direct_paths_.on_link_lost(event.link);
  introductions_.on_link_lost(event.link);
  circuits_.on_link_lost(event.link, call);
  own_.on_link_lost(event.link);
}

void Core::on(const DialFailed& event, const Call& call) {
  // A dial that was answered, and whose link ended before its Hello, is no longer here.
  const Dialing dialing = dials_.take(event.address).value_or(Dialing{});
  if (dialing.purpose == Dialing::Purpose::probe) {
    dial_backs_.answer(dialing, wire::DialBackOutcome::failed, call.out);
  } else if (dialing.purpose == Dialing::Purpose::want && !dialing.told) {
    search_.on_dial_failed(dialing.peer, event, call);
  }
}

void Core::on(const Received& event, const Call& call) {
  const base::LinkId from = event.link;
  if (!links_.contains(from)) return;
  std::visit(
      base::Overloaded{
          [&](const wire::DialBack& ask) { dial_backs_.on_ask(from, ask, call); },
          [&](const wire::DialedBack& answer) { own_.on_answer(from, answer, call); },
          [&](const wire::Introduce& message) { introductions_.on_message(from, message, call); },
          [&](const wire::Circuit& message) { on_circuit(from, message, call); },
      },
      event.message);
}

void Core::on_circuit(base::LinkId from, const wire::Circuit& message, const Call& call) {
  if (!links_.at(from).is_direct()) return;  // no circuit in a circuit
  const CircuitName name{from, message.number};
  switch (message.kind) {
    case wire::CircuitKind::ask:
      return circuits_.on_ask(from, message, call);
    case wire::CircuitKind::offer:
      return circuits_.on_offer(from, message, call);
    case wire::CircuitKind::accept:
      if (!circuits_.on_accept(name, call)) search_.on_relay_accepts(name, call);
      return;
    case wire::CircuitKind::refuse:
      if (!circuits_.on_refuse(name, message.reason, call)) {
        search_.on_relay_refuses(name, message.reason, call);
      }
      return;
    case wire::CircuitKind::none:
      break;
  }
}

void Core::on(const CircuitEnded& event, const Call& call) {
  if (circuits_.on_ended(event, call.out)) {
    search_.on_circuit_ended({event.link, event.number}, call);
  }
}

void Core::on(const Moved& event, const Call& call) {
  if (!own_.on_moved(event.addresses, call)) return;
  search_.on_moved();
  direct_paths_.on_moved(call.now);
}

Answered Core::answered(const std::string& address, const base::PeerId& peer, base::Time now,
                        Outbox& out) {
  using Purpose = Answered::Purpose;
  std::optional<Dialing> dialing = dials_.take(address, peer);
  if (!dialing) dialing = dials_.take(address);
  if (!dialing) return {};
  const bool as_expected = dialing->peer == peer;
  switch (dialing->purpose) {
    case Dialing::Purpose::want:
      search_.on_answered(*dialing, peer, now);
      return {};
    case Dialing::Purpose::meet:
      search_.on_answered(*dialing, peer, now);
      return {as_expected ? Purpose::meet : Purpose::close};
    case Dialing::Purpose::back:
      return {as_expected ? Purpose::back : Purpose::close, dialing->nonce};
    case Dialing::Purpose::probe:
      if (dialing->answer_by > now) {
        dial_backs_.answer(
            *dialing, as_expected ? wire::DialBackOutcome::reached : wire::DialBackOutcome::failed,
            out);
      }
      break;
  }
  return {Purpose::close};
}

template <class Visit>
void Core::visit_timers(const Visit& visit) const {
  dials_.visit_timers(visit);
  own_.visit_timers(visit);
  circuits_.visit_timers(visit);
  search_.visit_timers(visit);
  introductions_.visit_timers(visit);
  direct_paths_.visit_timers(visit);
}

std::optional<base::Time> Core::next_deadline() const {
  base::Earliest next;
  visit_timers([&](const char*, std::optional<base::Time> at, base::Duration) { next.add(at); });
  return next.value();
}

void Core::add_bounds(base::Bounds& out) const {
  links_.add_bounds(out);
  dials_.add_bounds(out);
  own_.add_bounds(out);
  circuits_.add_bounds(out);
  search_.add_bounds(out);
  introductions_.add_bounds(out);
  direct_paths_.add_bounds(out, links_.all().size());
}

void Core::add_timers(base::Time now, base::Bounds& out) const {
  visit_timers([&](const char* what, std::optional<base::Time> at, base::Duration limit) {
    if (at) out.add_timer(what, *at, now, limit);
  });
}

}  // namespace starling::reach
