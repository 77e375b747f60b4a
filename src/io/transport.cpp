#include "io/transport.hpp"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "base/assert.hpp"
#include "io/plain_session.hpp"
#include "io/transport_impl.hpp"

namespace starling::io {

// --- starting and stopping ---

base::Status Transport::Impl::start(const Identity& identity) {
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
  auto listener = TcpListener::create(loop_, *at);
  if (!listener) return base::fail(std::move(listener.error()));
  listener_ = std::move(*listener);
  address_ = listener_->address();
  bound_ = listener_->bound();
  turn_ = std::make_unique<Turn>(loop_, [this] { return turn(); });
  return {};
}

Transport::Impl::~Impl() {
  for (Slot& slot : slots_) {
    if (slot.link) slot.link->finish(LinkEnd::closed, "the transport is destroyed");
  }
  // Tearing down needs no answer from the network, so this ends after a few rounds.
  constexpr int kRoundsMax = 1'000'000;
  for (int round = 0; links() > 0; ++round) {
    ASSERT(round < kRoundsMax, "a carrier does not let go");
    fabrics_.progress();
    for (Slot& slot : slots_) {
      if (slot.link && slot.link->gone()) slot.link.reset();
    }
  }
}

void Transport::Impl::shutdown(std::function<void()> done) {
  shutting_down_ = true;
  done_ = std::move(done);
  listener_.reset();
  for (std::uint32_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i].link) slots_[i].link->close(Loop::now() + kCloseTimeout);
  }
}

void Transport::Impl::finish_shutdown() {
  if (!done_ || links() > 0 || !failed_dials_.empty()) return;
  if (fabrics_.any()) {
    // UCX must not lose its listener while its own thread accepts a connection.
    if (!quiet_at_) {
      fabrics_.close();
      quiet_at_ = Loop::now() + ucx::kQuiet;
    }
    if (Loop::now() < *quiet_at_) return;
  }
  std::exchange(done_, nullptr)();
}

// --- links ---

std::size_t Transport::Impl::links() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(slots_, [](const Slot& slot) { return slot.link != nullptr; }));
}

std::size_t Transport::Impl::strangers() const {
  return static_cast<std::size_t>(std::ranges::count_if(slots_, [](const Slot& slot) {
    return slot.link && slot.link->dial() == 0 &&
           !(slot.accepted && slot.link->state() == Link::State::up);
  }));
}

bool Transport::Impl::may_come(const base::Ip& from) const {
  if (strangers() >= kStrangersMax) return false;
  const auto from_there = std::ranges::count_if(slots_, [&](const Slot& slot) {
    return slot.link && slot.came_from && !slot.up_reported && slot.came_from->same_holder(from);
  });
  return static_cast<std::size_t>(from_there) < kStrangersPerHostMax;
}

std::optional<std::uint32_t> Transport::Impl::free_slot() {
  for (std::uint32_t i = 0; i < slots_.size(); ++i) {
    if (!slots_[i].link) return i;
  }
  if (slots_.size() >= config_.links_max) return std::nullopt;
  slots_.emplace_back();
  return static_cast<std::uint32_t>(slots_.size() - 1);
}

void Transport::Impl::put(std::uint32_t slot, std::uint64_t dial, std::string address,
                          std::unique_ptr<Bootstrap> bootstrap) {
  auto link = std::make_unique<Link>(dial, std::move(address), std::move(bootstrap),
                                     config_.link_memory, Loop::now() + config_.handshake_timeout);
  slots_[slot] = {.generation = slots_[slot].generation + 1, .link = std::move(link)};
}

Link* Transport::Impl::find(base::LinkId id) const {
  if (!id.valid() || id.slot >= slots_.size()) return nullptr;
  const Slot& slot = slots_[id.slot];
  if (slot.generation != id.generation || !slot.link) return nullptr;
  return slot.up_reported && !slot.down_reported ? slot.link.get() : nullptr;
}

base::Result<std::unique_ptr<Session>> Transport::Impl::make_session(Role role) const {
  if (tls_) return tls_->session(role);
  return make_plain_session(role, self_);
}

std::uint64_t Transport::Impl::fail_dial(std::string text) {
  failed_dials_.push_back({++dials_, std::move(text)});
  return dials_;
}

// The parts that every dial needs.
base::Result<Transport::Impl::Prepared> Transport::Impl::prepare(const std::string& address,
                                                                 Role role) {
  using enum base::ErrorCode;
  if (shutting_down_) return base::fail(network, "this peer is shutting down");
  const auto target = parse_target(address);
  if (!target) return base::fail(target.error());
  const auto slot = free_slot();
  if (!slot) {
    return base::fail(network, "{}: there are {} links already, the limit", address,
                      config_.links_max);
  }
  auto session = make_session(role);
  if (!session) return base::fail(session.error());
  return Prepared{*slot, *target, std::move(*session)};
}

std::uint64_t Transport::Impl::start_dial(std::uint32_t slot, const std::string& address,
                                          std::unique_ptr<Bootstrap> bootstrap) {
  put(slot, ++dials_, address, std::move(bootstrap));
  return dials_;
}

std::uint64_t Transport::Impl::dial(const std::string& address) {
  auto prepared = prepare(address, Role::dialer);
  if (!prepared) return fail_dial(prepared.error().text);
  const auto from = config_.one_port ? std::optional(bound()) : std::nullopt;
  auto dial = std::make_unique<TcpDial>(resolver_, prepared->target, config_.proxy,
                                        TcpDial::kStagger, from);
  return start_dial(prepared->slot, address,
                    std::make_unique<Bootstrap>(std::move(dial), std::move(prepared->session)));
}

std::uint64_t Transport::Impl::punch(const std::string& address, const base::PeerId& peer) {
  auto prepared = prepare(address, role_toward(peer));
  if (!prepared) return fail_dial(prepared.error().text);
  const auto to = numeric_address(prepared->target);
  if (!to) return fail_dial(address + ": an address in numbers is needed here");
  auto connection = TcpStream::connect_from(loop_, bound(), *to);
  if (!connection) return fail_dial(fmt::format("{}: {}", address, connection.error().text));
  const std::uint64_t number =
      start_dial(prepared->slot, address,
                 std::make_unique<Bootstrap>(std::move(*connection), std::move(prepared->session)));
  slots_[prepared->slot].expected = peer;
  slots_[prepared->slot].punches = *to;
  return number;
}

void Transport::Impl::accept(base::LinkId id) {
  Link* const link = find(id);
  if (link == nullptr) return;
  link->set_payload_max(config_.payload_max);
  slots_[id.slot].accepted = true;
  fabrics_.begin(*link, slots_[id.slot].talk);
}

void Transport::Impl::close(base::LinkId id) {
  if (Link* link = find(id)) link->close(Loop::now() + kCloseTimeout);
}

void Transport::Impl::abort(base::LinkId id) {
  if (Link* link = find(id)) link->finish(LinkEnd::closed, "cut by this peer");
}

LinkTraffic Transport::Impl::total() const {
  LinkTraffic sum = past_;
  for (const Slot& slot : slots_) {
    if (slot.link) sum.add(slot.link->traffic());
  }
  return sum;
}

LinkCarrier Transport::Impl::carrier(base::LinkId id) const {
  const Link* const link = find(id);
  if (link == nullptr || link->state() != Link::State::up) return {};
  const CarrierKind kind = link->carrier();
  return {kind, kind == CarrierKind::ucx ? std::string() : slots_[id.slot].talk.reason};
}

// --- the turn ---

bool Transport::Impl::turn() {
  const base::Time now = Loop::now();
  if (listener_) {
    for (std::unique_ptr<TcpStream>& tcp : listener_->take()) answer(std::move(tcp));
  }
  bool more = fabrics_.progress();
  take_ucx_connections(now);
  more = report_failed_dials() || more;
  for (std::uint32_t slot = 0; slot < slots_.size(); ++slot) {
    if (slots_[slot].link && pump(slot, now)) more = true;
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
void Transport::Impl::answer(std::unique_ptr<TcpStream> tcp) {
  if (take_for_punch(tcp)) return;
  const base::IpPort from = tcp->remote_address();
  if (!may_come(from.ip) || !pace_.take(from.ip, Loop::now())) return;
  const auto slot = free_slot();
  if (!slot) return;
  auto session = make_session(Role::listener);
  if (!session) return;
  auto bootstrap = std::make_unique<Bootstrap>(std::move(tcp), std::move(*session));
  put(*slot, 0, to_string(from), std::move(bootstrap));
  slots_[*slot].came_from = from.ip;
}

// Lets one link work and reports the results. True if there is more, or if the handler was called:
// it may have left commands on links that had their turn.
bool Transport::Impl::pump(std::uint32_t slot, base::Time now) {
  // By pointer: the handler may dial, which can move the slots but not the links.
  Link* link = slots_[slot].link.get();
  const base::LinkId id{slot, slots_[slot].generation};
  // In one object, so that std::functions that refer to it need no memory.
  struct {
    TransportHandler& handler;
    base::LinkId id;
    bool reported = false;
  } of{handler_, id};
  const auto on_frame = [&](wire::Frame&& frame, base::Duration took) {
    if (frame.type == static_cast<std::uint8_t>(wire::FrameType::circuit)) {
      return on_circuit_frame(of.id, *link, frame.payload());
    }
    of.reported = true;
    of.handler.on_frame(of.id, std::move(frame), took);
  };
  const auto on_part = [&of](std::uint8_t type, std::size_t bytes) {
    of.reported = true;
    of.handler.on_part(of.id, type, bytes);
  };
  const auto on_cell = [&](CellType type, base::ByteView cell) {
    of.reported = true;  // a reason may result, or a carrier in the next turn
    return fabrics_.on_cell(*link, slots_[slot].talk, type, cell);
  };
  const auto on_lost = [&](CarrierKind kind, const std::string& why) {
    if (kind == CarrierKind::ucx) fabrics_.on_lost(slots_[slot].talk, why, now);
  };
  if (link->state() == Link::State::up) {
    of.reported = fabrics_.go_on(*link, slots_[slot].talk, now,
                                 [this](Role role) { return make_session(role); });
  }
  const bool more = link->pump(now, {on_frame, on_part, on_cell, on_lost});
  if (link->state() == Link::State::up && !slots_[slot].up_reported &&
      link->opened().use == SessionUse::carrier) {
    join(*link);
    of.reported = true;
  } else if (link->state() == Link::State::up && !slots_[slot].up_reported) {
    of.reported = true;
    report_up(id, *link);
  }
  if (link->verdict() && !slots_[slot].down_reported) {
    of.reported = true;
    circuits_.link_gone(id);
    report_down(id, *link);
    slots_[slot].down_reported = true;
  }
  if (link->gone()) {
    past_.add(link->traffic());
    fabrics_.forget(slots_[slot].talk, now);
    slots_[slot].link.reset();
  }
  return more || of.reported;
}

void Transport::Impl::report_up(base::LinkId id, const Link& link) {
  Slot& slot = slots_[id.slot];
  if (slot.expected && *slot.expected != link.peer()) {
    return slot.link->finish(LinkEnd::reset, "another peer answers there");
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

void Transport::Impl::report_down(base::LinkId id, const Link& link) {
  const Link::Verdict verdict = *link.verdict();
  if (slots_[id.slot].up_reported) {
    handler_.on_link_down(id, verdict.end, verdict.text);
  } else if (link.dial() != 0) {
    handler_.on_dial_failed(link.dial(), verdict.end,
                            fmt::format("{}: {}", link.address(), verdict.text));
  }
}

bool Transport::Impl::report_failed_dials() {
  const std::vector<FailedDial> failed = std::exchange(failed_dials_, {});
  for (const FailedDial& dial : failed) {
    handler_.on_dial_failed(dial.dial, LinkEnd::reset, dial.text);
  }
  return !failed.empty();
}

void Transport::Impl::set_timer(base::Time now) {
  base::Time first = base::Time::max();
  for (const Slot& slot : slots_) {
    if (slot.link) first = std::min(first, slot.link->deadline());
  }
  for (const Slot& slot : slots_) {
    if (slot.talk.token != 0) first = std::min(first, slot.talk.token_until);
  }
  first = std::min({first, fabrics_at_, circuits_.deadline()});
  if (quiet_at_) first = std::min(first, *quiet_at_);
  if (first == base::Time::max()) {
    timer_.stop();
  } else if (first != timer_at_ || !timer_.active()) {
    timer_.start(first - now);
  }
  timer_at_ = first;
}

// --- the public interface ---

base::Result<std::unique_ptr<Transport>> Transport::create(Loop& loop,
                                                           const TransportConfig& config,
                                                           const Identity& identity,
                                                           TransportHandler& handler) {
  auto impl = std::make_unique<Impl>(loop, config, identity, handler);
  if (auto status = impl->start(identity); !status) return base::fail(std::move(status.error()));
  return std::unique_ptr<Transport>(new Transport(std::move(impl)));
}

Transport::Transport(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Transport::~Transport() = default;

const std::string& Transport::address() const noexcept { return impl_->address(); }

const base::IpPort& Transport::bound() const noexcept { return impl_->bound(); }

std::uint64_t Transport::dial(const std::string& address) { return impl_->dial(address); }

std::uint64_t Transport::punch(const std::string& address, const base::PeerId& peer) {
  return impl_->punch(address, peer);
}

void Transport::open_circuit(base::LinkId link, std::uint32_t number, const base::PeerId& peer,
                             bool opens) {
  impl_->open_circuit(link, number, peer, opens);
}

void Transport::relay(base::LinkId a, std::uint32_t number_a, base::LinkId b,
                      std::uint32_t number_b) {
  impl_->relay(a, number_a, b, number_b);
}

void Transport::end_circuit(base::LinkId link, std::uint32_t number) {
  impl_->end_circuit(link, number);
}

bool Transport::send(base::LinkId link, base::Bytes frame, wire::Purpose purpose) {
  Link* found = impl_->find(link);
  return found != nullptr && found->send(std::move(frame), purpose);
}

void Transport::accept(base::LinkId link) { impl_->accept(link); }

LinkCarrier Transport::carrier(base::LinkId link) const { return impl_->carrier(link); }

void Transport::close(base::LinkId link) { impl_->close(link); }

void Transport::abort(base::LinkId link) { impl_->abort(link); }

LinkTraffic Transport::traffic(base::LinkId link) const {
  const Link* found = impl_->find(link);
  return found != nullptr ? found->traffic() : LinkTraffic{};
}

LinkTraffic Transport::traffic() const { return impl_->total(); }

void Transport::shutdown(std::function<void()> done) { impl_->shutdown(std::move(done)); }

}  // namespace starling::io
