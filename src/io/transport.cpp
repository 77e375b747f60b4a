#include "io/transport.hpp"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "base/assert.hpp"
#include "io/link.hpp"
#include "io/plain_session.hpp"
#include "io/tcp.hpp"
#include "io/tls.hpp"
#include "io/ucx_listener.hpp"
#include "io/ucx_worker.hpp"

namespace starling::io {

namespace {

// A connection by UCX that is under way has come in, or has failed, by then.
constexpr base::Duration kListenerQuiet = std::chrono::milliseconds(100);

}  // namespace

class Transport::Impl {
 public:
  Impl(Loop& loop, const TransportConfig& config, const Identity& identity,
       TransportHandler& handler)
      : loop_(loop),
        config_(config),
        self_(identity.id()),
        handler_(handler),
        resolver_(loop),
        timer_(loop, [] {}),
        renewal_(loop, [this] { renew_ucx(); }) {
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
  void renew() { outdated_ = interface_of(at_).empty(); }
  void shutdown(std::function<void()> done);

 private:
  struct Slot {
    std::uint32_t generation = 0;
    std::unique_ptr<Link> link;
    /// What the handler was told of it.
    bool up_reported = false;
    bool down_reported = false;
    bool accepted = false;  // by accept()
  };
  /// A UCX stream of which it is not known yet to which link it belongs.
  struct UnclaimedStream {
    std::unique_ptr<UcxStream> stream;
    base::Time deadline;
  };
  struct FailedDial {
    std::uint64_t dial;
    std::string text;
  };

  [[nodiscard]] base::Status start_ucx();
  void make_way_for_renewal();
  /// UCX is outdated, and nothing uses it.
  [[nodiscard]] bool may_renew() const;
  void renew_ucx();
  [[nodiscard]] bool turn();
  void answer(std::unique_ptr<TcpStream> tcp);
  void take_ucx_connections(base::Time now);
  [[nodiscard]] Link* awaiting(base::ByteView token) const;
  [[nodiscard]] bool pump(std::uint32_t slot, base::Time now);
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
  Timer renewal_;  ///< UCX is not replaced in a turn, which its worker begins
  SocketAddress at_;
  std::unique_ptr<UcxWorker> worker_;
  std::unique_ptr<UcxStreams> streams_;
  std::unique_ptr<TcpListener> listener_;
  std::unique_ptr<UcxListener> ucx_listener_;
  std::uint16_t ucx_port_ = 0;
  std::vector<UnclaimedStream> unclaimed_;
  base::Time quiet_at_{};  ///< no UCX connection that somebody was told to make comes after this
  std::string address_;
  std::vector<Slot> slots_;
  std::vector<FailedDial> failed_dials_;
  std::uint64_t dials_ = 0;
  LinkTraffic past_;       ///< of links that are gone
  bool outdated_ = false;  ///< UCX was started in another network
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
  at_ = *at;
  auto listener = TcpListener::create(loop_, at_);
  if (!listener) return base::fail(std::move(listener.error()));
  listener_ = std::move(*listener);
  address_ = listener_->address();
  return start_ucx();
}

base::Status Transport::Impl::start_ucx() {
  auto worker = UcxWorker::create(loop_, interface_of(at_), [this] { return turn(); });
  if (!worker) return base::fail(std::move(worker.error()));
  // UCX knows IPv4 alone.
  const auto any_port = at_.with_port(0).v4().value_or(*SocketAddress().v4());
  auto listener = UcxListener::create(**worker, any_port);
  if (!listener) return base::fail(std::move(listener.error()));
  const auto listens = parse_address((*listener)->address());
  if (!listens) return base::fail(listens.error());
  ucx_listener_ = std::move(*listener);
  streams_ = std::make_unique<UcxStreams>(**worker);
  worker_ = std::move(*worker);
  ucx_port_ = listens->port;
  return {};
}

// Without a link that is up only dials are lost, which may never be none.
void Transport::Impl::make_way_for_renewal() {
  if (!outdated_ || shutting_down_) return;
  const auto is = [](const Slot& slot, Link::State state) {
    return slot.link && slot.link->state() == state;
  };
  if (std::ranges::any_of(slots_, [&](const Slot& slot) { return is(slot, Link::State::up); })) {
    return;
  }
  for (Slot& slot : slots_) {
    if (!is(slot, Link::State::connecting)) continue;
    slot.link->finish(LinkEnd::reset, "this machine's network has changed");
  }
}

bool Transport::Impl::may_renew() const {
  return outdated_ && !shutting_down_ && links() == 0 && unclaimed_.empty();
}

void Transport::Impl::renew_ucx() {
  if (!may_renew() || Loop::now() < quiet_at_) return;
  // What fails now may not after the next change: until then there is what there was.
  outdated_ = false;
  static_cast<void>(start_ucx());
}

Transport::Impl::~Impl() {
  listener_.reset();
  for (UnclaimedStream& unclaimed : unclaimed_) unclaimed.stream->abort();
  for (Slot& slot : slots_) {
    if (slot.link) slot.link->finish(LinkEnd::closed, "the transport is destroyed");
  }
  // Tearing down needs no answer from the network, so this ends after a few rounds.
  constexpr int kRoundsMax = 1'000'000;
  for (int round = 0; links() > 0 || !unclaimed_.empty(); ++round) {
    ASSERT(round < kRoundsMax, "UCX does not let go of an endpoint");
    worker_->progress();
    std::erase_if(unclaimed_,
                  [](const UnclaimedStream& unclaimed) { return unclaimed.stream->closed(); });
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
  if (!done_ || links() > 0 || !failed_dials_.empty() || !unclaimed_.empty()) return;
  // UCX must not lose its listener while its own thread takes in a connection.
  if (Loop::now() < quiet_at_) return;
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
  auto bootstrap = std::make_unique<Bootstrap>(resolver_, *streams_, std::move(*session), *target);
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
  if (!ucx_listener_) return false;  // still starting
  const base::Time now = Loop::now();
  if (listener_) {
    for (std::unique_ptr<TcpStream>& tcp : listener_->take()) answer(std::move(tcp));
  }
  take_ucx_connections(now);
  make_way_for_renewal();
  bool more = report_failed_dials();
  for (std::uint32_t slot = 0; slot < slots_.size(); ++slot) {
    if (slots_[slot].link && pump(slot, now)) more = true;
  }
  finish_shutdown();
  if (may_renew()) renewal_.start(quiet_at_ - now);
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
  auto bootstrap = std::make_unique<Bootstrap>(std::move(*session), std::move(tcp), ucx_port_);
  put(*slot, std::make_unique<Link>(0, std::move(from), std::move(bootstrap), config_.link_memory,
                                    Loop::now() + config_.handshake_timeout));
}

// Gives UCX streams to the links that await them. Who comes without a token that was given is cut.
void Transport::Impl::take_ucx_connections(base::Time now) {
  const auto awaited = static_cast<std::size_t>(std::ranges::count_if(
      slots_, [](const Slot& slot) { return slot.link && slot.link->awaited(); }));
  if (awaited > 0) quiet_at_ = now + kListenerQuiet;
  for (const UcxListener::Request& request : ucx_listener_->take_requests()) {
    if (unclaimed_.size() >= awaited) {
      ucx_listener_->reject(request);
      continue;
    }
    auto stream = UcxStream::accept(*streams_, request.handle);
    if (!stream) continue;  // the asker is gone, and UCX has taken the request back
    unclaimed_.push_back({std::move(*stream), now + config_.handshake_timeout});
  }
  for (UnclaimedStream& unclaimed : unclaimed_) {
    if (unclaimed.stream->readable()) {
      Link* link = awaiting(unclaimed.stream->take());
      if (link == nullptr) {
        unclaimed.stream->abort();
      } else {
        link->attach(std::move(unclaimed.stream));
      }
    } else if (now >= unclaimed.deadline || shutting_down_ ||
               unclaimed.stream->failure() != UcxStream::Failure::none) {
      unclaimed.stream->abort();
    }
  }
  std::erase_if(unclaimed_, [](const UnclaimedStream& unclaimed) {
    return unclaimed.stream == nullptr || unclaimed.stream->closed();
  });
}

Link* Transport::Impl::awaiting(base::ByteView token) const {
  std::uint64_t given = 0;
  if (token.size() != sizeof given) return nullptr;
  std::memcpy(&given, token.data(), sizeof given);
  const auto found = std::ranges::find_if(
      slots_, [&](const Slot& slot) { return slot.link && slot.link->awaited() == given; });
  return found == slots_.end() ? nullptr : found->link.get();
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
  const bool more = link->pump(now, {on_frame, on_part});
  if (link->state() == Link::State::up && !slots_[slot].up_reported) {
    of.reported = true;
    slots_[slot].up_reported = true;
    handler_.on_link_up(id, link->peer(), link->dial(), link->address());
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
  for (const UnclaimedStream& unclaimed : unclaimed_) first = std::min(first, unclaimed.deadline);
  if (done_ && now < quiet_at_) first = std::min(first, quiet_at_);
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

void Transport::renew() { impl_->renew(); }

void Transport::close(base::LinkId link) { impl_->close(link); }

void Transport::abort(base::LinkId link) { impl_->abort(link); }

LinkTraffic Transport::traffic(base::LinkId link) const {
  const Link* found = impl_->find(link);
  return found != nullptr ? found->traffic() : LinkTraffic{};
}

LinkTraffic Transport::traffic() const { return impl_->total(); }

void Transport::shutdown(std::function<void()> done) { impl_->shutdown(std::move(done)); }

}  // namespace starling::io
