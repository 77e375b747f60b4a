#include "io/loop_transport.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "base/assert.hpp"
#include "io/plain_session.hpp"

namespace starling::io {

// --- starting and stopping ---

base::Result<std::unique_ptr<Transport>> Transport::create(Loop& loop,
                                                           const TransportConfig& config,
                                                           const Identity& identity,
                                                           TransportHandler& handler) {
  auto transport = std::make_unique<LoopTransport>(loop, config, identity, handler);
  if (auto status = transport->start(loop, identity); !status) {
    return base::fail(std::move(status.error()));
  }
  return transport;
}

// The timer only has to wake the loop: the turn before its next wait does the work.
LoopTransport::LoopTransport(Loop& loop, const TransportConfig& config, const Identity& identity,
                             TransportHandler& handler)
    : config_(config),
      self_(identity.id()),
      handler_(handler),
      links_(config_),
      dialer_(loop, config_, self_, links_, [this](Role role) { return make_session(role); }),
      timer_(loop, [] {}),
      fabrics_(loop, {config.fabric, config.fabric_ports}, config.tls, config.secret.has_value()),
      circuits_(*this, config.relay_limit) {}

base::Status LoopTransport::start(Loop& loop, const Identity& identity) {
  ASSERT(config_.links_max > 0 && config_.link_memory >= kLinkMemoryMin);
  const auto target = parse_address(config_.listen);
  if (!target) return base::fail(target.error().in("cannot listen"));
  const auto at = resolve_now(*target);
  if (!at) return base::fail(at.error().in("cannot listen"));
  if (config_.tls) {
    auto tls = TlsContext::create(identity, config_.secret);
    if (!tls) return base::fail(std::move(tls.error()));
    tls_ = std::move(*tls);
  }
  auto listener = TcpListener::create(loop, *at);
  if (!listener) return base::fail(std::move(listener.error()));
  listener_ = std::move(*listener);
  address_ = listener_->address();
  bound_ = listener_->bound();
  turn_ = std::make_unique<Turn>(loop, [this] { return turn(); });
  return {};
}

LoopTransport::~LoopTransport() {
  for (Slot& slot : links_.slots()) {
    if (slot.link) slot.link->finish(LinkEnd::closed, "the transport is destroyed");
  }
  // Tearing down needs no answer from the network, so this ends after a few rounds.
  constexpr int kRoundsMax = 1'000'000;
  for (int round = 0; links_.size() > 0; ++round) {
    ASSERT(round < kRoundsMax, "a carrier does not let go");
    fabrics_.progress();
    for (Slot& slot : links_.slots()) {
      if (slot.link && slot.link->gone()) links_.end(slot);
    }
  }
}

void LoopTransport::shutdown(std::function<void()> done) {
  done_ = std::move(done);
  dialer_.stop();
  listener_.reset();
  for (Slot& slot : links_.slots()) {
    if (slot.link) slot.link->close(Loop::now() + kCloseTimeout);
  }
}

void LoopTransport::finish_shutdown() {
  if (!done_ || links_.size() > 0 || dialer_.any_failed()) return;
  if (fabrics_.any()) {
    if (!quiet_at_) quiet_at_ = fabrics_.close();
    if (Loop::now() < *quiet_at_) return;
  }
  std::exchange(done_, nullptr)();
}

// --- links ---

base::Result<std::unique_ptr<Session>> LoopTransport::make_session(Role role) const {
  if (tls_) return tls_->session(role);
  return make_plain_session(role, self_);
}

bool LoopTransport::send(base::LinkId id, base::Bytes frame, wire::Purpose purpose) {
  Link* const link = links_.find(id);
  return link != nullptr && link->send(std::move(frame), purpose);
}

void LoopTransport::accept(base::LinkId id) {
  Link* const link = links_.find(id);
  if (link == nullptr) return;
  link->set_payload_max(config_.payload_max);
  Slot& slot = links_.at(id);
  slot.accepted = true;
  fabrics_.begin(*link, slot.talk);
}

void LoopTransport::close(base::LinkId id) {
  if (Link* link = links_.find(id)) link->close(Loop::now() + kCloseTimeout);
}

void LoopTransport::abort(base::LinkId id) {
  if (Link* link = links_.find(id)) link->finish(LinkEnd::closed, "cut by this peer");
}

LinkCarrier LoopTransport::carrier(base::LinkId id) const {
  const Link* const link = links_.find(id);
  if (link == nullptr || link->state() != Link::State::up) return {};
  const CarrierKind kind = link->carrier();
  return {kind, kind == CarrierKind::ucx ? std::string() : links_.at(id).talk.reason};
}

LinkTraffic LoopTransport::traffic(base::LinkId id) const {
  const Link* const link = links_.find(id);
  return link != nullptr ? link->traffic() : LinkTraffic{};
}

// --- the turn ---

bool LoopTransport::turn() {
  const base::Time now = Loop::now();
  if (listener_) {
    for (std::unique_ptr<TcpStream>& tcp : listener_->take()) answer(std::move(tcp));
  }
  bool more = fabrics_.progress();
  take_ucx_connections(now);
  more = report_failed_dials() || more;
  for (std::uint32_t place = 0; place < links_.slots().size(); ++place) {
    Slot& slot = links_.slots()[place];
    if (slot.link && pump({place, slot.generation}, slot, now)) more = true;
  }
  more = circuits_.pump(now) || more;
  more = report_ended_circuits() || more;
  more = std::exchange(stirred_, false) || more;
  finish_shutdown();
  if (now >= fabrics_at_ || fabrics_at_ == base::Time::max())
    fabrics_at_ = fabrics_.drop_unused(now);
  set_timer(now);
  // Only if nothing is left to do: an armed fabric wakes the loop.
  return more || !fabrics_.arm();
}

// Connections that are not answered are closed.
void LoopTransport::answer(std::unique_ptr<TcpStream> tcp) {
  if (dialer_.take_for_punch(tcp)) return;
  const base::IpPort from = tcp->remote_address();
  if (!links_.may_come(from.ip) || !pace_.take(from.ip, Loop::now())) return;
  const auto place = links_.free_place();
  if (!place) return;
  auto session = make_session(Role::listener);
  if (!session) return;
  auto bootstrap = std::make_unique<Bootstrap>(std::move(tcp), std::move(*session));
  links_.begin(*place, 0, to_string(from), std::move(bootstrap)).came_from = from.ip;
}

// Lets one link work and reports the results. True if there is more, or if the handler was called:
// it may have left commands on links that had their turn.
bool LoopTransport::pump(base::LinkId id, Slot& slot, base::Time now) {
  Link& link = *slot.link;
  // In one object, so that std::functions that refer to it need no memory.
  struct {
    LoopTransport& transport;
    base::LinkId id;
    Slot& slot;
    base::Time now;
    bool reported = false;
  } of{*this, id, slot, now};
  const auto on_frame = [&of](wire::Frame&& frame, base::Duration took) {
    if (frame.type == static_cast<std::uint8_t>(wire::FrameType::circuit)) {
      return of.transport.on_circuit_frame(of.id, of.slot, frame.payload());
    }
    of.reported = true;
    of.transport.handler_.on_frame(of.id, std::move(frame), took);
  };
  const auto on_part = [&of](std::uint8_t type, std::size_t bytes) {
    of.reported = true;
    of.transport.handler_.on_part(of.id, type, bytes);
  };
  const auto on_cell = [&of](CellType type, base::ByteView cell) {
    of.reported = true;  // a reason may result, or a carrier in the next turn
    return of.transport.fabrics_.on_cell(*of.slot.link, of.slot.talk, type, cell);
  };
  const auto on_lost = [&of](CarrierKind kind, const std::string& why) {
    if (kind == CarrierKind::ucx) of.transport.fabrics_.on_lost(of.slot.talk, why, of.now);
  };
  if (link.state() == Link::State::up) {
    of.reported =
        fabrics_.go_on(link, slot.talk, now, [this](Role role) { return make_session(role); });
  }
  const bool more = link.pump(now, {on_frame, on_part, on_cell, on_lost});
  if (link.state() == Link::State::up && !slot.up_reported) {
    of.reported = true;
    if (link.opened().use == SessionUse::carrier) {
      join(link);
    } else {
      report_up(id, slot);
    }
  }
  if (link.verdict() && !slot.down_reported) {
    of.reported = true;
    circuits_.link_gone(id);
    report_down(id, slot);
    slot.down_reported = true;
  }
  if (link.gone()) {
    fabrics_.forget(slot.talk, now);
    links_.end(slot);
  }
  return more || of.reported;
}

void LoopTransport::report_up(base::LinkId id, Slot& slot) {
  Link& link = *slot.link;
  if (slot.expected && *slot.expected != link.peer()) {
    return link.finish(LinkEnd::reset, "another peer answers there");
  }
  slot.up_reported = true;
  handler_.on_link_up(id, {.peer = link.peer(),
                           .dial = link.dial(),
                           .address = link.address(),
                           .observed = link.route() ? to_string(link.route()->remote) : "",
                           .local = link.route() ? to_string(link.route()->local) : "",
                           .via = slot.via,
                           .opened = slot.opened});
}

void LoopTransport::report_down(base::LinkId id, const Slot& slot) {
  const Link& link = *slot.link;
  const Link::Verdict verdict = *link.verdict();
  if (slot.up_reported) {
    handler_.on_link_down(id, verdict.end, verdict.text);
  } else if (link.dial() != 0) {
    handler_.on_dial_failed(link.dial(), verdict.end,
                            fmt::format("{}: {}", link.address(), verdict.text));
  }
}

bool LoopTransport::report_failed_dials() {
  const std::vector<Dialer::Failed> failed = dialer_.take_failed();
  for (const Dialer::Failed& dial : failed) {
    handler_.on_dial_failed(dial.dial, LinkEnd::reset, dial.text);
  }
  return !failed.empty();
}

void LoopTransport::set_timer(base::Time now) {
  base::Time first = std::min({links_.deadline(), fabrics_at_, circuits_.deadline()});
  if (quiet_at_) first = std::min(first, *quiet_at_);
  if (first == base::Time::max()) {
    timer_.stop();
  } else if (first != timer_at_ || !timer_.active()) {
    timer_.start(first - now);
  }
  timer_at_ = first;
}

// --- carriers of links other than their own connections ---

void LoopTransport::open_circuit(base::LinkId id, std::uint32_t number, const base::PeerId& peer,
                                 bool opens) {
  const auto place = links_.free_place();
  auto session = make_session(opens ? Role::dialer : Role::listener);
  std::unique_ptr<Carrier> carrier;
  if (place && session && listener_ && links_.find(id) != nullptr) {
    carrier = circuits_.open(id, number);
  }
  if (!carrier) return circuits_.refuse(id, number);
  auto bootstrap =
      std::make_unique<Bootstrap>(CarrierKind::circuit, std::move(carrier), std::move(*session));
  Slot& slot = links_.begin(*place, 0, "a circuit", std::move(bootstrap));
  slot.expected = peer;
  slot.via = id;
  slot.opened = opens;
}

bool LoopTransport::send_circuit_frame(base::LinkId id, base::Bytes frame) {
  if (!send(id, std::move(frame), wire::Purpose::relayed)) return false;
  stirred_ = true;
  return true;
}

std::optional<std::size_t> LoopTransport::waiting_on(base::LinkId id) const {
  const Link* const link = links_.find(id);
  if (link == nullptr) return std::nullopt;
  return link->waiting();
}

// Inside a pump() of the link.
void LoopTransport::on_circuit_frame(base::LinkId id, Slot& slot, base::ByteView payload) {
  stirred_ = true;
  if (slot.accepted && circuits_.on_frame(id, payload, Loop::now())) return;
  slot.link->finish(LinkEnd::protocol_error,
                    "the other end sends a circuit's frame that makes no sense");
}

bool LoopTransport::report_ended_circuits() {
  const auto ended = circuits_.take_ended();
  for (const Circuits::Ended& one : ended) {
    handler_.on_circuit_ended({one.link, one.number, one.bytes});
  }
  return !ended.empty();
}

// A new connection is a stranger until its session has shown that a link awaits it.
void LoopTransport::take_ucx_connections(base::Time now) {
  std::size_t awaited = 0;
  for (Slot& slot : links_.slots()) {
    if (slot.talk.token != 0 && now >= slot.talk.token_until) {
      fabrics_.on_lost(slot.talk, "the other end did not connect by UCX in time", now);
    }
    if (slot.talk.token != 0) ++awaited;
  }
  if (!fabrics_.any()) return;
  // A carrier can only be released later, so each one that is taken gets a link.
  const std::size_t places = std::min(awaited, config_.links_max - links_.size());
  for (std::unique_ptr<Carrier>& carrier : fabrics_.take_incoming(places)) {
    const auto place = links_.free_place();
    auto session = make_session(Role::listener);
    ASSERT(place && session, "there is a place, and memory");
    links_.begin(
        *place, 0, "UCX",
        std::make_unique<Bootstrap>(CarrierKind::ucx, std::move(carrier), std::move(*session)));
  }
}

// The new link is really another carrier of a link that awaits it.
void LoopTransport::join(Link& carrier) {
  const std::uint64_t token = carrier.opened().token;
  const auto found = std::ranges::find_if(links_.slots(), [&](const Slot& slot) {
    return token != 0 && slot.talk.token == token && slot.link &&
           slot.link->peer() == carrier.peer();
  });
  if (found == links_.slots().end()) {
    return carrier.finish(LinkEnd::protocol_error, "no link awaits this carrier");
  }
  found->talk.token = 0;
  found->link->add(carrier.give_channel());
}

}  // namespace starling::io
