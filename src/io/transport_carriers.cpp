// Transport: the carriers of its links other than their own connections.
#include <algorithm>
#include <utility>

#include "base/assert.hpp"
#include "io/transport_impl.hpp"

namespace starling::io {

// The other end's packet came before this end had sent its own: then this is an ordinary
// connection, and the attempt from here is useless. Both ends know that they dial each other, so
// the roles in the session are the same.
bool Transport::Impl::take_for_punch(std::unique_ptr<TcpStream>& tcp) {
  const base::IpPort from = tcp->remote_address();
  const auto found = std::ranges::find_if(slots_, [&](const Slot& slot) {
    return slot.link && slot.punches == from && slot.link->state() == Link::State::connecting;
  });
  if (found == slots_.end()) return false;
  auto session = make_session(role_toward(*found->expected));
  if (!session) return false;
  found->link->restart(std::make_unique<Bootstrap>(std::move(tcp), std::move(*session)));
  found->punches.reset();
  return true;
}

void Transport::Impl::open_circuit(base::LinkId id, std::uint32_t number, const base::PeerId& peer,
                                   bool opens) {
  const auto slot = free_slot();
  auto session = make_session(opens ? Role::dialer : Role::listener);
  std::unique_ptr<Carrier> carrier;
  if (slot && session && !shutting_down_ && find(id) != nullptr)
    carrier = circuits_.open(id, number);
  if (!carrier) return circuits_.refuse(id, number);
  auto bootstrap =
      std::make_unique<Bootstrap>(CarrierKind::circuit, std::move(carrier), std::move(*session));
  put(*slot, 0, "a circuit", std::move(bootstrap));
  slots_[*slot].expected = peer;
  slots_[*slot].via = id;
  slots_[*slot].opened = opens;
}

bool Transport::Impl::send_circuit_frame(base::LinkId id, base::Bytes frame) {
  Link* const link = find(id);
  if (link == nullptr || !link->send(std::move(frame), wire::Purpose::relayed)) return false;
  stirred_ = true;
  return true;
}

std::optional<std::size_t> Transport::Impl::waiting_on(base::LinkId id) const {
  const Link* const link = find(id);
  if (link == nullptr) return std::nullopt;
  return link->waiting();
}

// Inside a pump() of the link.
void Transport::Impl::on_circuit_frame(base::LinkId id, Link& link, base::ByteView payload) {
  stirred_ = true;
  if (slots_[id.slot].accepted && circuits_.on_frame(id, payload, Loop::now())) return;
  link.finish(LinkEnd::protocol_error, "the other end sends a circuit's frame that makes no sense");
}

bool Transport::Impl::report_ended_circuits() {
  const auto ended = circuits_.take_ended();
  for (const Circuits::Ended& one : ended) {
    handler_.on_circuit_ended({one.link, one.number, one.bytes});
  }
  return !ended.empty();
}

std::size_t Transport::Impl::awaited_carriers() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(slots_, [](const Slot& slot) { return slot.talk.token != 0; }));
}

// A new connection is a stranger until its session has shown that a link awaits it.
void Transport::Impl::take_ucx_connections(base::Time now) {
  for (Slot& slot : slots_) {
    if (slot.talk.token == 0 || now < slot.talk.token_until) continue;
    fabrics_.on_lost(slot.talk, "the other end did not connect by UCX in time", now);
  }
  if (!fabrics_.any()) return;
  // A carrier can only be released later, so each one that is taken gets a link.
  const std::size_t places = std::min(awaited_carriers(), config_.links_max - links());
  for (std::unique_ptr<Carrier>& carrier : fabrics_.take_incoming(places)) {
    const auto slot = free_slot();
    auto session = make_session(Role::listener);
    ASSERT(slot && session, "there is a place, and memory");
    put(*slot, 0, "UCX",
        std::make_unique<Bootstrap>(CarrierKind::ucx, std::move(carrier), std::move(*session)));
  }
}

// The new link is really another carrier of a link that awaits it.
void Transport::Impl::join(Link& carrier) {
  const std::uint64_t token = carrier.opened().token;
  const auto found = std::ranges::find_if(slots_, [&](const Slot& slot) {
    return token != 0 && slot.talk.token == token && slot.link &&
           slot.link->peer() == carrier.peer();
  });
  if (found == slots_.end()) {
    return carrier.finish(LinkEnd::protocol_error, "no link awaits this carrier");
  }
  found->talk.token = 0;
  found->link->add(carrier.give_channel());
}

}  // namespace starling::io
