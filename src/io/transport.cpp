#include "io/transport.hpp"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "base/assert.hpp"
#include "io/link.hpp"
#include "io/plain_session.hpp"
#include "io/tls.hpp"
#include "io/turn.hpp"

namespace starling::io {

class Transport::Impl {
 public:
  Impl(Loop& loop, const TransportConfig& config, const Identity& identity,
       TransportHandler& handler)
      : loop_(loop),
        config_(config),
        self_(identity.id()),
        handler_(handler),
        resolver_(loop),
        timer_(loop, [] {}) {
    // A timer only has to wake the loop: the turn before its next wait does the work.
  }
  ~Impl();

  [[nodiscard]] base::Status start(const Identity& identity);
  [[nodiscard]] const std::string& address() const noexcept { return address_; }
  [[nodiscard]] std::uint64_t dial(const std::string& address);
  [[nodiscard]] Link* find(base::LinkId id) const;
  void accept(base::LinkId id);
  void close(base::LinkId id);
  void abort(base::LinkId id);
  [[nodiscard]] LinkTraffic total() const;
  void shutdown(std::function<void()> done);

 private:
  struct Slot {
    std::uint32_t generation = 0;
    std::unique_ptr<Link> link;
    /// What the handler was told of it.
    bool up_reported = false;
    bool down_reported = false;
    bool accepted = false;  // by accept()
    /// With which another carrier of it will come; 0: none is awaited.
    std::uint64_t token = 0;
  };
  struct FailedDial {
    std::uint64_t dial;
    std::string text;
  };

  [[nodiscard]] bool turn();
  void answer(std::unique_ptr<TcpStream> tcp);
  [[nodiscard]] bool pump(std::uint32_t slot, base::Time now);
  void join(Link& carrier);
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

std::uint64_t Transport::Impl::dial(const std::string& address) {
  const std::uint64_t number = ++dials_;
  const auto failed = [&](std::string text) {
    failed_dials_.push_back({number, std::move(text)});
    return number;
  };
  if (shutting_down_) return failed("this peer is shutting down");
  const auto target = parse_target(address);
  if (!target) return failed(target.error().text);
  const auto slot = free_slot();
  if (!slot) {
    return failed(
        fmt::format("{}: there are {} links already, the limit", address, config_.links_max));
  }
  auto session = make_session(Role::dialer);
  if (!session) return failed(session.error().text);
  auto bootstrap =
      std::make_unique<Bootstrap>(resolver_, *target, std::move(*session), Preamble{});
  put(*slot, std::make_unique<Link>(number, address, std::move(bootstrap), config_.link_memory,
                                    Loop::now() + config_.handshake_timeout));
  return number;
}

void Transport::Impl::accept(base::LinkId id) {
  Link* const link = find(id);
  if (link == nullptr) return;
  link->set_payload_max(config_.payload_max);
  slots_[id.slot].accepted = true;
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

// --- the turn ---

bool Transport::Impl::turn() {
  const base::Time now = Loop::now();
  if (listener_) {
    for (std::unique_ptr<TcpStream>& tcp : listener_->take()) answer(std::move(tcp));
  }
  bool more = report_failed_dials();
  for (std::uint32_t slot = 0; slot < slots_.size(); ++slot) {
    if (slots_[slot].link && pump(slot, now)) more = true;
  }
  finish_shutdown();
  set_timer(now);
  return more;
}

// Whoever is not answered is hung up on.
void Transport::Impl::answer(std::unique_ptr<TcpStream> tcp) {
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
  const auto on_frame = [&of](wire::Frame&& frame, base::Duration took) {
    of.reported = true;
    of.handler.on_frame(of.id, std::move(frame), took);
  };
  const auto on_part = [&of](std::uint8_t type, std::size_t bytes) {
    of.reported = true;
    of.handler.on_part(of.id, type, bytes);
  };
  const auto on_cell = [](CellType, base::ByteView) { return base::Status{}; };
  const auto on_lost = [](CarrierKind, const std::string&) {};
  const bool more = link->pump(now, {on_frame, on_part, on_cell, on_lost});
  if (link->state() == Link::State::up && !slots_[slot].up_reported &&
      link->opened().use == SessionUse::carrier) {
    join(*link);
    of.reported = true;
  } else if (link->state() == Link::State::up && !slots_[slot].up_reported) {
    of.reported = true;
    slots_[slot].up_reported = true;
    handler_.on_link_up(id, {.peer = link->peer(),
                             .dial = link->dial(),
                             .address = link->address(),
                             .observed = link->route() ? to_string(link->route()->remote) : ""});
  }
  if (link->verdict() && !slots_[slot].down_reported) {
    of.reported = true;
    report_down(id, *link);
    slots_[slot].down_reported = true;
  }
  if (link->gone()) {
    past_.add(link->traffic());
    slots_[slot].link.reset();
  }
  return more || of.reported;
}

// What came up as a link of its own is another carrier of one that awaits it.
void Transport::Impl::join(Link& carrier) {
  const std::uint64_t token = carrier.opened().token;
  const auto found = std::ranges::find_if(slots_, [&](const Slot& slot) {
    return token != 0 && slot.token == token && slot.link && slot.link->peer() == carrier.peer();
  });
  if (found == slots_.end()) {
    return carrier.finish(LinkEnd::protocol_error, "no link awaits this carrier");
  }
  found->token = 0;
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

bool Transport::send(base::LinkId link, base::Buffer frame, wire::Purpose purpose) {
  Link* found = impl_->find(link);
  return found != nullptr && found->send(std::move(frame), purpose);
}

void Transport::accept(base::LinkId link) { impl_->accept(link); }

void Transport::close(base::LinkId link) { impl_->close(link); }

void Transport::abort(base::LinkId link) { impl_->abort(link); }

LinkTraffic Transport::traffic(base::LinkId link) const {
  const Link* found = impl_->find(link);
  return found != nullptr ? found->traffic() : LinkTraffic{};
}

LinkTraffic Transport::traffic() const { return impl_->total(); }

void Transport::shutdown(std::function<void()> done) { impl_->shutdown(std::move(done)); }

}  // namespace starling::io
