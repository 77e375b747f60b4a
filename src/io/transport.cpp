#include "io/transport.hpp"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "base/assert.hpp"
#include "io/circuits.hpp"
#include "io/fabrics.hpp"
#include "io/link.hpp"
#include "io/plain_session.hpp"
#include "io/tls.hpp"
#include "io/turn.hpp"

namespace starling::io {

class Transport::Impl final : private CircuitLinks {
 public:
  Impl(Loop& loop, const TransportConfig& config, const Identity& identity,
       TransportHandler& handler)
      : loop_(loop),
        config_(config),
        self_(identity.id()),
        handler_(handler),
        resolver_(loop),
        timer_(loop, [] {}),
        fabrics_(loop, {config.fabric, config.fabric_ports}, config.tls, config.secret.has_value()),
        circuits_(*this, config.relay_limit) {
    // A timer only has to wake the loop: the turn before its next wait does the work.
  }
  ~Impl() override;

  [[nodiscard]] base::Status start(const Identity& identity);
  [[nodiscard]] const std::string& address() const noexcept { return address_; }
  [[nodiscard]] std::uint64_t dial(const std::string& address);
  [[nodiscard]] std::uint64_t punch(const std::string& address, const base::PeerId& peer);
  void open_circuit(base::LinkId id, std::uint32_t number, const base::PeerId& peer, bool opens);
  void relay(base::LinkId a, std::uint32_t number_a, base::LinkId b, std::uint32_t number_b) {
    circuits_.relay(a, number_a, b, number_b, Loop::now());
  }
  void end_circuit(base::LinkId id, std::uint32_t number) { circuits_.end(id, number); }
  [[nodiscard]] Link* find(base::LinkId id) const;
  void accept(base::LinkId id);
  void close(base::LinkId id);
  void abort(base::LinkId id);
  [[nodiscard]] LinkTraffic total() const;
  [[nodiscard]] LinkCarrier carrier(base::LinkId id) const;
  void shutdown(std::function<void()> done);

 private:
  struct Slot {
    std::uint32_t generation = 0;
    std::unique_ptr<Link> link;
    /// What the handler was told of it.
    bool up_reported = false;
    bool down_reported = false;
    bool accepted = false;  // by accept()
    Fabrics::Talk talk{};
    /// Who must be at the other end; nothing: anybody.
    std::optional<base::PeerId> expected{};
    std::optional<SocketAddress> punches{};  ///< where the dial from the listening port goes
    base::LinkId via{};                      ///< over a circuit: the link with the relay
    bool opened = false;                     ///< over a circuit: by this end
  };
  struct FailedDial {
    std::uint64_t dial;
    std::string text;
  };

  bool send_circuit_frame(base::LinkId id, base::Buffer frame) override;
  [[nodiscard]] std::optional<std::size_t> waiting_on(base::LinkId id) const override;
  [[nodiscard]] std::uint64_t fail_dial(std::string text);
  [[nodiscard]] Role role_toward(const base::PeerId& peer) const {
    return self_ < peer ? Role::dialer : Role::listener;
  }
  [[nodiscard]] bool take_for_punch(std::unique_ptr<TcpStream>& tcp);
  void on_circuit_frame(base::LinkId id, Link& link, base::ByteView payload);
  [[nodiscard]] bool report_ended_circuits();
  void report_up(base::LinkId id, const Link& link);

  [[nodiscard]] bool turn();
  void answer(std::unique_ptr<TcpStream> tcp);
  [[nodiscard]] bool pump(std::uint32_t slot, base::Time now);
  void join(Link& carrier);
  void take_ucx_connections(base::Time now);
  [[nodiscard]] std::size_t awaited_carriers() const;
  void report_down(base::LinkId id, const Link& link);
  [[nodiscard]] bool report_failed_dials();
  void set_timer(base::Time now);
  void finish_shutdown();
  [[nodiscard]] std::optional<std::uint32_t> free_slot();
  [[nodiscard]] base::Result<std::unique_ptr<Session>> make_session(Role role) const;
  [[nodiscard]] std::size_t links() const;
  [[nodiscard]] std::size_t strangers() const;
  [[nodiscard]] bool may_come(const std::string& host) const;
  void put(std::uint32_t slot, std::unique_ptr<Link> link);

  Loop& loop_;
  const TransportConfig config_;
  const base::PeerId self_;
  TransportHandler& handler_;
  std::optional<TlsContext> tls_;
  Resolver resolver_;
  Timer timer_;
  base::Time timer_at_ = base::Time::max();
  Fabrics fabrics_;
  base::Time fabrics_at_ = base::Time::max();  ///< when to see which of them are not used
  Circuits circuits_;
  bool stirred_ = false;  ///< a link that had its turn has something to send
  std::optional<base::Time> quiet_at_;         ///< shutting down: when fabrics may be let go of
  std::unique_ptr<Turn> turn_;
  std::unique_ptr<TcpListener> listener_;
  std::string address_;
  std::vector<Slot> slots_;
  std::vector<FailedDial> failed_dials_;
  std::uint64_t dials_ = 0;
  LinkTraffic past_;  ///< of links that are gone
  bool shutting_down_ = false;
  std::function<void()> done_;
};

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
    // UCX must not lose its listener while a thread of its own takes in a connection.
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

bool Transport::Impl::may_come(const std::string& host) const {
  if (strangers() >= kStrangersMax) return false;
  const auto from_there = std::ranges::count_if(slots_, [&](const Slot& slot) {
    return slot.link && slot.link->dial() == 0 && !slot.up_reported &&
           slot.link->address().starts_with(host + ":");
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

void Transport::Impl::put(std::uint32_t slot, std::unique_ptr<Link> link) {
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

std::uint64_t Transport::Impl::dial(const std::string& address) {
  if (shutting_down_) return fail_dial("this peer is shutting down");
  const auto target = parse_target(address);
  if (!target) return fail_dial(target.error().text);
  const auto slot = free_slot();
  if (!slot) {
    return fail_dial(
        fmt::format("{}: there are {} links already, the limit", address, config_.links_max));
  }
  auto session = make_session(Role::dialer);
  if (!session) return fail_dial(session.error().text);
  auto bootstrap = std::make_unique<Bootstrap>(
      std::make_unique<TcpDial>(resolver_, *target, config_.proxy), std::move(*session));
  put(*slot, std::make_unique<Link>(++dials_, address, std::move(bootstrap), config_.link_memory,
                                    Loop::now() + config_.handshake_timeout));
  return dials_;
}

std::uint64_t Transport::Impl::punch(const std::string& address, const base::PeerId& peer) {
  if (shutting_down_) return fail_dial("this peer is shutting down");
  const auto target = parse_target(address);
  if (!target) return fail_dial(target.error().text);
  const auto to = numeric_address(*target);
  if (!to) return fail_dial(address + ": an address in numbers is needed here");
  const auto slot = free_slot();
  if (!slot) {
    return fail_dial(
        fmt::format("{}: there are {} links already, the limit", address, config_.links_max));
  }
  auto session = make_session(role_toward(peer));
  if (!session) return fail_dial(session.error().text);
  auto connection = TcpStream::connect_from(loop_, parse_address(address_)->port, *to);
  if (!connection) return fail_dial(fmt::format("{}: {}", address, connection.error().text));
  auto bootstrap = std::make_unique<Bootstrap>(std::move(*connection), std::move(*session));
  put(*slot, std::make_unique<Link>(++dials_, address, std::move(bootstrap), config_.link_memory,
                                    Loop::now() + config_.handshake_timeout));
  slots_[*slot].expected = peer;
  slots_[*slot].punches = *to;
  return dials_;
}

// The other end's packet came before this end had sent its own: then it is an ordinary connection,
// and the attempt from here is of no use. Both ends know that they dial each other, so the roles
// in the session are the same.
bool Transport::Impl::take_for_punch(std::unique_ptr<TcpStream>& tcp) {
  const SocketAddress from = tcp->remote_address();
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

void Transport::Impl::open_circuit(base::LinkId id, std::uint32_t number,
                                   const base::PeerId& peer, bool opens) {
  const auto slot = free_slot();
  auto session = make_session(opens ? Role::dialer : Role::listener);
  std::unique_ptr<Carrier> carrier;
  if (slot && session && !shutting_down_ && find(id) != nullptr) carrier = circuits_.open(id, number);
  if (!carrier) return circuits_.refuse(id, number);
  auto bootstrap = std::make_unique<Bootstrap>(CarrierKind::circuit, std::move(carrier),
                                               std::move(*session));
  put(*slot, std::make_unique<Link>(0, "a circuit", std::move(bootstrap), config_.link_memory,
                                    Loop::now() + config_.handshake_timeout));
  slots_[*slot].expected = peer;
  slots_[*slot].via = id;
  slots_[*slot].opened = opens;
}

bool Transport::Impl::send_circuit_frame(base::LinkId id, base::Buffer frame) {
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
  if (now >= fabrics_at_ || fabrics_at_ == base::Time::max()) fabrics_at_ = fabrics_.drop_unused(now);
  set_timer(now);
  // Only where nothing is left to do: what is armed wakes the loop.
  return more || !fabrics_.arm();
}

std::size_t Transport::Impl::awaited_carriers() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(slots_, [](const Slot& slot) { return slot.talk.token != 0; }));
}

// Whoever comes is a stranger until its session has shown that a link awaits it.
void Transport::Impl::take_ucx_connections(base::Time now) {
  for (Slot& slot : slots_) {
    if (slot.talk.token == 0 || now < slot.talk.token_until) continue;
    fabrics_.on_lost(slot.talk, "the other end did not connect by UCX in time", now);
  }
  if (!fabrics_.any()) return;
  for (std::unique_ptr<Carrier>& carrier : fabrics_.take_incoming(awaited_carriers())) {
    // A carrier can only be let go of in its time, so it gets a link in any case.
    const auto slot = free_slot();
    auto session = make_session(Role::listener);
    ASSERT(slot && session, "places are kept for carriers");
    put(*slot, std::make_unique<Link>(
                   0, "UCX",
                   std::make_unique<Bootstrap>(CarrierKind::ucx, std::move(carrier),
                                               std::move(*session)),
                   config_.link_memory, now + config_.handshake_timeout));
  }
}

// Whoever is not answered is hung up on.
void Transport::Impl::answer(std::unique_ptr<TcpStream> tcp) {
  if (take_for_punch(tcp)) return;
  std::string from = to_string(tcp->remote_address());
  if (!may_come(from.substr(0, from.rfind(':')))) return;
  const auto slot = free_slot();
  if (!slot) return;
  auto session = make_session(Role::listener);
  if (!session) return;
  auto bootstrap = std::make_unique<Bootstrap>(std::move(tcp), std::move(*session));
  put(*slot, std::make_unique<Link>(0, std::move(from), std::move(bootstrap), config_.link_memory,
                                    Loop::now() + config_.handshake_timeout));
}

// Lets one link work and reports what came of it. True if there is more, or if the handler was
// called: it may have left commands on links that had their turn.
bool Transport::Impl::pump(std::uint32_t slot, base::Time now) {
  // By pointer: the handler may dial, which can move the slots but not the links.
  Link* link = slots_[slot].link.get();
  const base::LinkId id{slot, slots_[slot].generation};
  // In one place, so that functions of it need no memory.
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
    return fabrics_.on_cell(*link, slots_[slot].talk, type, cell, now,
                            [this](Role role) { return make_session(role); });
  };
  const auto on_lost = [&](CarrierKind kind, const std::string& why) {
    if (kind == CarrierKind::ucx) fabrics_.on_lost(slots_[slot].talk, why, now);
  };
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
                           .via = slot.via,
                           .opened = slot.opened});
}

// What came up as a link of its own is another carrier of one that awaits it.
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

bool Transport::send(base::LinkId link, base::Buffer frame, wire::Purpose purpose) {
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
