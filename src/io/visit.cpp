#include "io/visit.hpp"

#include <algorithm>
#include <functional>
#include <memory>
#include <span>
#include <utility>

#include <fmt/core.h>

#include "base/hash.hpp"
#include "base/printable.hpp"
#include "io/address.hpp"
#include "io/identity.hpp"
#include "io/interfaces.hpp"
#include "io/lan.hpp"
#include "io/loop.hpp"
#include "io/port_mapping.hpp"
#include "io/tcp.hpp"
#include "io/transport.hpp"

namespace starling::io {
namespace {

/// Stops the loop after each event, so that the loop's caller can check the changes.
class Events : public TransportHandler {
 public:
  explicit Events(Loop& loop) : loop_(loop) {}

  void on_link_up(base::LinkId link, const LinkUp& linked) final {
    up(link, linked);
    loop_.stop();
  }
  void on_frame(base::LinkId link, wire::Frame&& frame, base::Duration) final {
    received(link, std::move(frame));
    loop_.stop();
  }
  void on_part(base::LinkId, std::uint8_t, std::size_t) final {}
  void on_circuit_ended(const CircuitEnd&) final {}
  void on_link_down(base::LinkId link, LinkEnd, const std::string& text) final {
    down(link, text);
    loop_.stop();
  }
  void on_dial_failed(std::uint64_t dial, LinkEnd end, const std::string& text) final {
    failed(dial, end, text);
    loop_.stop();
  }

 protected:
  [[nodiscard]] Loop& loop() noexcept { return loop_; }

 private:
  virtual void up(base::LinkId, const LinkUp&) {}
  virtual void received(base::LinkId, wire::Frame&&) {}
  virtual void down(base::LinkId, const std::string& /*why*/) {}
  virtual void failed(std::uint64_t /*dial*/, LinkEnd, const std::string& /*why*/) {}

  Loop& loop_;
};

/// A transport with its own key, which is discarded at the end.
class Caller {
 public:
  /// `one_port`: as in TransportConfig.
  [[nodiscard]] static base::Result<std::unique_ptr<Caller>> create(
      Loop& loop, const LinkSecurity& security, TransportHandler& handler,
      const std::string& listen = "[::]:0", bool one_port = false) {
    auto identity = Identity::generate();
    if (!identity) return base::fail(identity.error());
    std::unique_ptr<Caller> made(new Caller(loop, std::move(*identity)));
    auto transport = Transport::create(loop,
                                       {.listen = listen,
                                        .one_port = one_port,
                                        .tls = security.tls,
                                        .secret = security.secret,
                                        .proxy = security.proxy},
                                       made->identity_, handler);
    if (!transport) return base::fail(transport.error());
    made->transport_ = std::move(*transport);
    return made;
  }
  Caller(const Caller&) = delete;
  Caller& operator=(const Caller&) = delete;
  ~Caller() {
    if (!transport_) return;
    bool down = false;
    transport_->shutdown([&] {
      down = true;
      loop_.stop();
    });
    while (!down) loop_.run();
  }

  [[nodiscard]] Transport& transport() noexcept { return *transport_; }

 private:
  Caller(Loop& loop, Identity identity) : loop_(loop), identity_(std::move(identity)) {}

  Loop& loop_;
  Identity identity_;
  std::unique_ptr<Transport> transport_;
};

/// Announcements that come back do so at once, unless the first ones are lost.
constexpr base::Duration kLanWait = 3 * kLanFast;

/// More than the time that three protocols take without any answer.
constexpr base::Duration kMappingTimeout = std::chrono::seconds(20);

/// Runs the loop until `over` is true, or for at most `patience`. Events that may make it true stop
/// the loop.
void run_until(Loop& loop, base::Duration patience, const std::function<bool()>& over) {
  bool late = false;
  Timer timeout(loop, [&] {
    late = true;
    loop.stop();
  });
  timeout.start(patience);
  while (!late && !over()) loop.run();
}

std::optional<base::IpPort> numeric(const std::string& address) {
  const auto parsed = parse_target(address);
  return parsed ? numeric_address(*parsed) : std::nullopt;
}

/// Dials addresses, and talks with the peers that answer.
class Visit final : public Events {
 public:
  /// Of one address.
  struct Call {
    std::string address;
    base::Time dialed{};
    std::uint64_t dial = 0;  ///< until it has an outcome
    base::LinkId link{};     ///< while something may come on it
    LinkUp up{};
    std::optional<Greeting> greeting{};
    base::Error failure{};  ///< once nothing more may come, unless the peer has answered everything

    [[nodiscard]] bool over() const noexcept { return dial == 0 && !link.valid(); }
  };

  /// `wanted`: the run that the peer must train, and whose run file is requested; nothing: any run,
  /// and all calls are to be answered.
  Visit(Loop& loop, std::optional<wire::RunId> wanted) : Events(loop), wanted_(wanted) {}

  /// Until the run file is there, or all calls are over.
  [[nodiscard]] base::Status make(const std::vector<std::string>& addresses,
                                  const LinkSecurity& security) {
    auto caller = Caller::create(loop(), security, *this, "[::]:0", !wanted_);
    if (!caller) return base::fail(caller.error());
    transport_ = &(*caller)->transport();
    for (const std::string& address : addresses) {
      calls_.push_back({.address = address, .dialed = Loop::now()});
      if (auto target = parse_target(address); !target) {
        calls_.back().failure = target.error();  // which names the address
      } else {
        calls_.back().dial = transport_->dial(address);
      }
    }
    run_until(loop(), kVisitTimeout,
              [&] { return run_file_ || std::ranges::all_of(calls_, &Call::over); });
    for (Call& call : calls_) {
      if (!call.over()) end(call, "no answer in time");
    }
    return {};
  }

  [[nodiscard]] const std::vector<Call>& calls() const noexcept { return calls_; }
  [[nodiscard]] std::optional<std::string>& run_file() noexcept { return run_file_; }

 private:
  [[nodiscard]] Call* find(base::LinkId link) {
    const auto found = std::ranges::find(calls_, link, &Call::link);
    return found == calls_.end() ? nullptr : &*found;
  }

  void up(base::LinkId link, const LinkUp& linked) override {
    const auto found = std::ranges::find(calls_, linked.dial, &Call::dial);
    if (linked.dial == 0 || found == calls_.end()) {
      return transport_->abort(link);  // nobody should dial this transport
    }
    found->dial = 0;
    found->link = link;
    found->up = linked;
    if (!wanted_) return;
    static_cast<void>(
        transport_->send(link, wire::encode(wire::RunFileRequest{}), wire::Purpose::other));
  }

  void received(base::LinkId link, wire::Frame&& frame) override {
    Call* const call = find(link);
    if (call == nullptr || run_file_) return;
    auto message = wire::decode(std::move(frame));
    if (!message) return give_up(*call, message.error().text);
    if (!*message) return;
    if (auto* hello = std::get_if<wire::Hello>(&**message)) {
      on_hello(*call, *hello);
    } else if (const auto* refusal = std::get_if<wire::Refuse>(&**message)) {
      give_up(*call, base::printable(refusal->text, wire::kTextMax));
    } else if (auto* reply = std::get_if<wire::RunFileReply>(&**message)) {
      if (!call->greeting) return give_up(*call, "does not say what it trains");
      run_file_ = std::move(reply->text);
    }
  }

  void on_hello(Call& call, wire::Hello& hello) {
    if (wanted_ && hello.run != *wanted_) {
      return give_up(call, fmt::format("trains another run, {}", hello.run.hex()));
    }
    call.greeting = {.id = hello.self.id,
                     .name = std::move(hello.self.name),
                     .run = hello.run,
                     .took = Loop::now() - call.dialed,
                     .observed = numeric(hello.observed)};
    const auto own = numeric(call.up.local);
    const auto peer = numeric(call.up.observed);
    if (call.greeting->observed && own && peer) {
      call.greeting->sighting = {*own, *peer, *call.greeting->observed};
    }
    // Without a run file to wait for, the call is complete.
    if (!wanted_) call.link = {};
  }

  void down(base::LinkId link, const std::string& text) override {
    Call* const call = find(link);
    if (call == nullptr) return;
    end(*call, text.empty() ? "the link was closed without an answer" : text);
  }

  void failed(std::uint64_t dial, LinkEnd ended, const std::string& text) override {
    const auto found = std::ranges::find(calls_, dial, &Call::dial);
    if (found == calls_.end()) return;
    found->dial = 0;
    found->failure = {
        ended == LinkEnd::turned_away ? base::ErrorCode::secret : base::ErrorCode::unreachable,
        text};  // which names the address
  }

  static void end(Call& call, const std::string& why) {
    call.dial = 0;
    call.link = {};
    call.failure = {base::ErrorCode::unreachable, fmt::format("{}: {}", call.address, why)};
  }

  void give_up(Call& call, const std::string& why) {
    transport_->abort(call.link);
    call.greeting.reset();
    end(call, why);
  }

  std::optional<wire::RunId> wanted_;
  Transport* transport_ = nullptr;
  std::vector<Call> calls_;  ///< one per address, in their order
  std::optional<std::string> run_file_;
};

/// The end that is dialed: waits for a frame.
class Listener final : public Events {
 public:
  using Events::Events;
  bool heard = false;

 private:
  void received(base::LinkId, wire::Frame&&) override { heard = true; }
};

/// The end that dials, and sends a frame.
class Asker final : public Events {
 public:
  using Events::Events;
  Transport* transport = nullptr;
  std::optional<std::string> failure;

 private:
  void up(base::LinkId link, const LinkUp&) override {
    static_cast<void>(
        transport->send(link, wire::encode(wire::RunFileRequest{}), wire::Purpose::other));
  }
  void failed(std::uint64_t, LinkEnd, const std::string& why) override { failure = why; }
  void down(base::LinkId, const std::string& why) override { failure = why; }
};

base::Result<base::Duration> check_own_link(Loop& loop, Listener& listener,
                                            const std::string& address,
                                            const LinkSecurity& security) {
  Asker asker(loop);
  auto caller = Caller::create(loop, security, asker);
  if (!caller) return base::fail(caller.error());
  asker.transport = &(*caller)->transport();
  listener.heard = false;
  const base::Time dialed = Loop::now();
  static_cast<void>(asker.transport->dial(address));
  run_until(loop, kVisitTimeout, [&] { return listener.heard || asker.failure; });
  if (listener.heard) return Loop::now() - dialed;
  return base::fail(base::ErrorCode::unreachable, "{}",
                    asker.failure.value_or(address + ": no answer in time"));
}

}  // namespace

base::Result<std::string> request_run_file(const runfile::Invite& invite,
                                           const std::optional<Secret>& secret,
                                           const std::optional<ProxyConfig>& proxy) {
  const LinkSecurity security{invite.security == runfile::Security::tls, secret, proxy};
  auto loop = Loop::create();
  if (!loop) return base::fail(std::move(loop.error()));
  Visit visit(*loop, invite.run);
  if (auto made = visit.make(invite.addresses, security); !made) return base::fail(made.error());
  if (visit.run_file()) return std::move(*visit.run_file());
  std::string failures;
  for (const Visit::Call& call : visit.calls()) failures += "\n  " + call.failure.text;
  const bool turned_away = std::ranges::all_of(visit.calls(), [](const Visit::Call& call) {
    return call.failure.code == base::ErrorCode::secret;
  });
  return base::fail(turned_away ? base::ErrorCode::secret : base::ErrorCode::unreachable,
                    "no peer has handed out a run file:{}", failures);
}

base::Result<std::vector<base::Result<Greeting>>> greet(const std::vector<std::string>& addresses,
                                                        const LinkSecurity& security) {
  auto loop = Loop::create();
  if (!loop) return base::fail(std::move(loop.error()));
  Visit visit(*loop, std::nullopt);
  if (auto made = visit.make(addresses, security); !made) return base::fail(made.error());
  std::vector<base::Result<Greeting>> answers;
  for (const Visit::Call& call : visit.calls()) {
    if (call.greeting) {
      answers.emplace_back(*call.greeting);
    } else {
      answers.push_back(base::fail(call.failure));
    }
  }
  return answers;
}

base::Result<std::vector<OwnLink>> check_own_links(const std::string& listen,
                                                   const LinkSecurity& security) {
  auto loop = Loop::create();
  if (!loop) return base::fail(std::move(loop.error()));
  Listener listener(*loop);
  auto caller = Caller::create(*loop, security, listener, listen);
  if (!caller) return base::fail(caller.error());
  std::vector<OwnLink> links;
  const auto at = numeric_address(parse_address((*caller)->transport().address()).value());
  for (const std::string& address : reachable_addresses(at.value(), {}, wire::kAddressesMax)) {
    links.push_back({address, check_own_link(*loop, listener, address, security)});
  }
  return links;
}

base::Result<PortMapped> check_port_mapping(const std::string& listen, const std::string& program) {
  auto loop = Loop::create();
  if (!loop) return base::fail(std::move(loop.error()));
  const auto target = parse_address(listen);
  if (!target) return base::fail(target.error());
  const auto at = resolve_now(*target);
  if (!at) return base::fail(at.error());
  if (at->ip.is_loopback()) {
    return PortMapped{{}, "not requested: no other machine reaches " + listen};
  }
  const auto listener = TcpListener::create(*loop, *at);
  if (!listener) return base::fail(listener.error());
  PortMapped made;
  std::size_t said = 0;
  PortMapping mapping(*loop, program, (*listener)->address(),
                      {.changed = [] {},
                       .note =
                           [&](const std::string& text) {
                             made.text += (made.text.empty() ? "" : "; ") + text;
                             ++said;
                             loop->stop();
                           }});
  // All addresses means two families, and each has its own answer.
  const std::size_t families = at->ip.is_any() && at->ip.is_v6() ? 2 : 1;
  run_until(*loop, kMappingTimeout, [&] { return said >= families; });
  made.outer = mapping.mapped();
  if (said == 0) made.text = "the router has not answered in time";
  return made;
}

base::Status check_lan() {
  auto loop = Loop::create();
  if (!loop) return base::fail(std::move(loop.error()));
  // Two peers that no other peer knows; each hears the other, or neither does.
  std::vector<std::unique_ptr<Lan>> ends;
  wire::RunId run;
  for (int end = 0; end < 2; ++end) {
    const auto identity = Identity::generate();
    if (!identity) return base::fail(identity.error());
    if (end == 0) run = base::xxh3_128(base::bytes_of(std::span(identity->id().bytes)));
    auto lan = Lan::create(*loop, {run, identity->id(), 1}, base::Ip::any_v6(), kLanPort,
                           [&](const base::PeerId&, const std::string&) { loop->stop(); });
    if (!lan) return base::fail(lan.error());
    ends.push_back(std::move(*lan));
  }
  run_until(*loop, kLanWait, [&] { return ends[0]->heard_any() && ends[1]->heard_any(); });
  if (ends[0]->heard_any() && ends[1]->heard_any()) return {};
  return base::fail(base::ErrorCode::network, "{}", ends[0]->diagnosis());
}

}  // namespace starling::io
