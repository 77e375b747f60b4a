#include "io/visit.hpp"

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <utility>

#include <fmt/format.h>

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

/// Stops the loop after each event, so that whoever runs it looks at what has changed.
class Events : public TransportHandler {
 public:
  explicit Events(Loop& loop) : loop_(loop) {}

  void on_link_up(base::LinkId link, const LinkUp& linked) final {
    up(link, linked.dial);
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
  virtual void up(base::LinkId, std::uint64_t /*dial*/) {}
  virtual void received(base::LinkId, wire::Frame&&) {}
  virtual void down(base::LinkId, const std::string& /*why*/) {}
  virtual void failed(std::uint64_t /*dial*/, LinkEnd, const std::string& /*why*/) {}

  Loop& loop_;
};

/// A transport of a key of its own, which is gone for good at the end.
class Caller {
 public:
  [[nodiscard]] static base::Result<std::unique_ptr<Caller>> create(Loop& loop,
                                                                    const LinkSecurity& security,
                                                                    TransportHandler& handler,
                                                                    const std::string& listen) {
    auto identity = Identity::generate();
    if (!identity) return base::fail(identity.error());
    std::unique_ptr<Caller> made(new Caller(loop, std::move(*identity)));
    auto transport = Transport::create(
        loop,
        {.listen = listen, .tls = security.tls, .secret = security.secret, .proxy = security.proxy},
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

/// More than three protocols take whose requests nobody answers.
constexpr base::Duration kMappingTimeout = std::chrono::seconds(20);

/// Runs the loop until `over` holds, or for so long. What may make it hold stops the loop.
void run_until(Loop& loop, base::Duration patience, const std::function<bool()>& over) {
  bool late = false;
  Timer timeout(loop, [&] {
    late = true;
    loop.stop();
  });
  timeout.start(patience);
  while (!late && !over()) loop.run();
}

/// Dials addresses and talks with whoever answers, until one has said what was wanted, or nobody
/// is left.
class Visit final : public Events {
 public:
  /// `wanted`: the run that must be trained there; nothing: any.
  Visit(Loop& loop, std::optional<wire::RunId> wanted, bool asks_for_run_file)
      : Events(loop), wanted_(wanted), asks_for_run_file_(asks_for_run_file) {}

  /// run_file: all have another secret, or this end none; unreachable: nobody has, for any reason.
  [[nodiscard]] base::Status make(const std::vector<std::string>& addresses,
                                  const LinkSecurity& security) {
    auto caller = Caller::create(loop(), security, *this, "[::]:0");
    if (!caller) return base::fail(caller.error().code, "\n  {}", caller.error().text);
    transport_ = &(*caller)->transport();
    for (const std::string& address : addresses) {
      if (auto target = parse_target(address); !target) {
        failures_ += "\n  " + target.error().text;  // which names the address
      } else {
        dials_[transport_->dial(address)] = {address, Loop::now()};
      }
    }
    run_until(loop(), kVisitTimeout, [&] { return done_ || (dials_.empty() && links_.empty()); });
    const auto give_up_all = [&](auto& calls) {
      for (const auto& [key, call] : calls) add_failure(call, "no answer in time");
      calls.clear();
    };
    give_up_all(dials_);
    give_up_all(links_);
    if (done_) return {};
    return base::fail(
        turned_away_ == addresses.size() ? base::ErrorCode::secret : base::ErrorCode::unreachable,
        "{}", failures_);
  }

  [[nodiscard]] const Greeting& greeting() const noexcept { return *greeting_; }
  [[nodiscard]] std::string take_run_file() noexcept { return std::move(run_file_); }

 private:
  struct Call {
    std::string address;
    base::Time dialed;
    bool greeted = false;
  };

  void up(base::LinkId link, std::uint64_t dial) override {
    const auto found = dials_.find(dial);
    if (found == dials_.end()) return transport_->abort(link);  // nobody should dial this
    links_[link] = std::move(found->second);
    dials_.erase(found);
    if (!asks_for_run_file_) return;
    static_cast<void>(
        transport_->send(link, wire::encode(wire::RunFileRequest{}), wire::Purpose::other));
  }

  void received(base::LinkId link, wire::Frame&& frame) override {
    if (!links_.contains(link) || done_) return;
    auto message = wire::decode(std::move(frame));
    if (!message) return give_up(link, message.error().text);
    if (!*message) return;
    if (auto* hello = std::get_if<wire::Hello>(&**message)) {
      on_hello(link, *hello);
    } else if (const auto* refusal = std::get_if<wire::Refuse>(&**message)) {
      give_up(link, base::printable(refusal->text, wire::kTextMax));
    } else if (auto* reply = std::get_if<wire::RunFileReply>(&**message)) {
      if (!links_.at(link).greeted) return give_up(link, "does not say what it trains");
      run_file_ = std::move(reply->text);
      done_ = true;
    }
  }

  void on_hello(base::LinkId link, wire::Hello& hello) {
    Call& call = links_.at(link);
    if (wanted_ && hello.run != *wanted_) {
      return give_up(link, fmt::format("trains another run, {}", hello.run.hex()));
    }
    call.greeted = true;
    greeting_ = {hello.self.id, std::move(hello.self.name), hello.run, Loop::now() - call.dialed};
    if (!asks_for_run_file_) done_ = true;
  }

  void down(base::LinkId link, const std::string& text) override {
    const auto found = links_.find(link);
    if (found == links_.end()) return;
    add_failure(found->second, text.empty() ? "the link was closed without an answer" : text);
    links_.erase(found);
  }

  void failed(std::uint64_t dial, LinkEnd end, const std::string& text) override {
    if (dials_.erase(dial) == 0) return;
    if (end == LinkEnd::turned_away) ++turned_away_;
    failures_ += "\n  " + text;  // which names the address
  }

  void add_failure(const Call& call, const std::string& why) {
    failures_ += fmt::format("\n  {}: {}", call.address, why);
  }

  void give_up(base::LinkId link, const std::string& why) {
    add_failure(links_.at(link), why);
    links_.erase(link);
    transport_->abort(link);
  }

  std::optional<wire::RunId> wanted_;
  bool asks_for_run_file_;
  Transport* transport_ = nullptr;
  std::map<std::uint64_t, Call> dials_;
  std::map<base::LinkId, Call> links_;
  std::string failures_;
  std::size_t turned_away_ = 0;  ///< dials that failed for the secret
  std::optional<Greeting> greeting_;
  std::string run_file_;
  bool done_ = false;
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
class Dialer final : public Events {
 public:
  using Events::Events;
  Transport* transport = nullptr;
  std::optional<std::string> failure;

 private:
  void up(base::LinkId link, std::uint64_t) override {
    static_cast<void>(
        transport->send(link, wire::encode(wire::RunFileRequest{}), wire::Purpose::other));
  }
  void failed(std::uint64_t, LinkEnd, const std::string& why) override { failure = why; }
  void down(base::LinkId, const std::string& why) override { failure = why; }
};

base::Result<base::Duration> check_own_link(Loop& loop, Listener& listener,
                                            const std::string& address,
                                            const LinkSecurity& security) {
  Dialer dialer(loop);
  auto caller = Caller::create(loop, security, dialer, "[::]:0");
  if (!caller) return base::fail(caller.error());
  dialer.transport = &(*caller)->transport();
  listener.heard = false;
  const base::Time dialed = Loop::now();
  static_cast<void>(dialer.transport->dial(address));
  run_until(loop, kVisitTimeout, [&] { return listener.heard || dialer.failure; });
  if (listener.heard) return Loop::now() - dialed;
  return base::fail(base::ErrorCode::unreachable, "{}",
                    dialer.failure.value_or(address + ": no answer in time"));
}

}  // namespace

base::Result<std::string> request_run_file(const peer::Invite& invite,
                                           const std::optional<Secret>& secret,
                                           const std::optional<ProxyConfig>& proxy) {
  const LinkSecurity security{invite.security == peer::Security::tls, secret, proxy};
  auto loop = Loop::create();
  if (!loop) return base::fail(std::move(loop.error()));
  Visit visit(*loop, invite.run, true);
  if (auto made = visit.make(invite.addresses, security); !made) {
    return base::fail(made.error().code, "no peer has handed out a run file:{}", made.error().text);
  }
  return visit.take_run_file();
}

base::Result<Greeting> greet(const std::string& address, const LinkSecurity& security) {
  auto loop = Loop::create();
  if (!loop) return base::fail(std::move(loop.error()));
  Visit visit(*loop, std::nullopt, false);
  if (auto made = visit.make({address}, security); !made) {
    const std::string& text = made.error().text;
    return base::fail(made.error().code, "{}", text.substr(text.find_first_not_of("\n ")));
  }
  return visit.greeting();
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
  if (at->ip.is_loopback()) return PortMapped{{}, "not asked for: nobody else reaches " + listen};
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
  // At all addresses there are two families, of which each has its answer.
  const std::size_t families = at->ip.is_any() && at->ip.is_v6() ? 2 : 1;
  run_until(*loop, kMappingTimeout, [&] { return said >= families; });
  made.addresses = mapping.addresses();
  if (said == 0) made.text = "the router has not answered in time";
  return made;
}

base::Status check_lan() {
  auto loop = Loop::create();
  if (!loop) return base::fail(std::move(loop.error()));
  // Two peers that nobody else has heard of; each hears the other or nobody does.
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
