#include "io/router/map_port.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <memory>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include <arpa/inet.h>
#include <fmt/format.h>
#include <openssl/sha.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/descriptor.hpp"
#include "base/file.hpp"
#include "io/address.hpp"
#include "io/raw_address.hpp"
#include "io/router/mapper.hpp"
#include "io/router/route.hpp"
#include "io/router/sandbox.hpp"
#include "io/router/upnp.hpp"

namespace starling::io::router {
namespace {

constexpr int kUsageExit = 2;
constexpr int kFailedExit = 1;
/// How often this machine's route is checked.
constexpr base::Duration kLookEvery = std::chrono::seconds(20);
/// If a UPnP device holds this process up for longer, the process ends: the peer starts a new one.
constexpr unsigned kUpnpSecondsMax = 40;
/// The port on which routers announce a restart (RFC 6886, section 3.2.1).
constexpr std::uint16_t kAnnouncePort = 5350;
constexpr std::uint32_t kAllHosts = 0xe000'0001;  // 224.0.0.1

/// A clock that continues while the machine sleeps: mappings end then, too.
base::Time now() {
  timespec time{};
  clock_gettime(CLOCK_BOOTTIME, &time);
  return base::Time(std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec));
}

/// The same at each start on this machine: a router lets only the holder of a nonce change its
/// mapping, and a peer that was killed can use its own again. Others cannot guess it.
Nonce nonce_of(const std::string& machine, const base::Ip& own, std::uint16_t port) {
  const std::string text = fmt::format("starling port mapping {} {} {}", machine, own.text(), port);
  std::array<std::uint8_t, SHA256_DIGEST_LENGTH> digest{};
  SHA256(reinterpret_cast<const std::uint8_t*>(text.data()), text.size(), digest.data());
  Nonce nonce;
  std::copy_n(digest.begin(), nonce.size(), nonce.begin());
  return nonce;
}

/// An id that only this machine knows; random if there is none.
std::string machine_secret() {
  constexpr std::size_t kIdMin = 32;
  constexpr std::size_t kIdMax = 256;
  if (const auto id = base::read_file("/etc/machine-id", kIdMax); id && id->size() >= kIdMin) {
    return std::string(base::text_of(*id));
  }
  std::array<std::uint8_t, 16> random{};
  if (getrandom(random.data(), random.size(), 0) < 0) return {};
  return fmt::format("{:02x}", fmt::join(random, ""));
}

/// The port's mapping for one family of addresses, over the route that this machine has now.
class Family {
 public:
  Family(bool v4, const base::IpPort& listen, const std::string& machine)
      : v4_(v4), listen_(listen), machine_(machine) {}

  /// Begins anew if the route has changed.
  void look_at_route() {
    const auto route = route_to_internet(v4_);
    if (looked_ && route == route_) return;
    looked_ = true;
    route_ = route;
    mapper_.reset();
    upnp_.reset();
    socket_ = base::Descriptor(-1);
    announce_ = base::Descriptor(-1);
    if (const std::string why = unfit(); !why.empty()) return say(Unmapped{v4_, why});
    open();
    mapper_.emplace(
        Mapper::Config{route_->own, listen_.port, nonce_of(machine_, route_->own, listen_.port)});
    with_mapper([](Mapper& mapper, Mapper::Outbox& out) { mapper.start(now(), out); });
  }

  void end() {
    with_mapper([](Mapper& mapper, Mapper::Outbox& out) { mapper.end(now(), out); });
  }
  [[nodiscard]] bool ended() const { return !mapper_ || mapper_->ended(); }
  /// The reports have no reader: the peer is gone.
  [[nodiscard]] bool unheard() const noexcept { return unheard_; }

  [[nodiscard]] std::optional<base::Time> next_deadline() const {
    return mapper_ ? mapper_->next_deadline() : std::nullopt;
  }
  void expire() {
    with_mapper([](Mapper& mapper, Mapper::Outbox& out) { mapper.expire(now(), out); });
  }

  [[nodiscard]] std::array<int, 2> descriptors() const { return {socket_.get(), announce_.get()}; }
  void receive(int descriptor) {
    std::array<std::byte, kAnswerMax + 1> bytes;
    sockaddr_storage from{};
    socklen_t size = sizeof from;
    const ssize_t got = recvfrom(descriptor, bytes.data(), bytes.size(), MSG_DONTWAIT,
                                 reinterpret_cast<sockaddr*>(&from), &size);
    if (got < 0 && errno != ECONNREFUSED) return;
    with_mapper([&](Mapper& mapper, Mapper::Outbox& out) {
      if (descriptor == announce_.get()) {
        const auto sender = ip_port_of(from);
        if (sender && sender->ip == route_->gateway) mapper.restarted(now(), out);
      } else if (got < 0) {
        mapper.unreachable(now(), out);
      } else {
        mapper.receive(base::ByteView(bytes).first(static_cast<std::size_t>(got)), now(), out);
      }
    });
  }

 private:
  /// Why there is nothing to map; empty: there may be.
  [[nodiscard]] std::string unfit() const {
    if (!route_) return fmt::format("this machine has no router for {}", v4_ ? "IPv4" : "IPv6");
    const base::Ip& own = route_->own;
    if (v4_ && own.is_global()) {
      return fmt::format("this machine's own address {} is public, no router has to map it",
                         own.text());
    }
    if (!v4_ && !own.is_global()) return "this machine has no public IPv6 address";
    if (!listen_.ip.is_any() && listen_.ip != own) {
      return fmt::format("the way to the internet is from {}, and this peer listens at {}",
                         own.text(), listen_.ip.text());
    }
    return {};
  }

  void open() {
    constexpr int kType = SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK;
    const RawAddress own({route_->own, 0});
    const RawAddress router({route_->gateway, kRouterPort});
    socket_ = base::Descriptor(::socket(own.family(), kType, 0));
    // Connected: the kernel drops datagrams from others. If one of these calls fails, no answer
    // comes, which is then reported.
    static_cast<void>(::bind(socket_.get(), own.get(), own.size()));
    static_cast<void>(::connect(socket_.get(), router.get(), router.size()));
    if (!v4_) return;
    announce_ = base::Descriptor(::socket(own.family(), kType, 0));
    const int on = 1;
    setsockopt(announce_.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    const RawAddress group({base::Ip::v4(kAllHosts), kAnnouncePort});
    static_cast<void>(::bind(announce_.get(), group.get(), group.size()));
    ip_mreq membership{};
    membership.imr_multiaddr.s_addr = htonl(kAllHosts);
    std::memcpy(&membership.imr_interface, route_->own.bytes().data(),
                sizeof membership.imr_interface);
    setsockopt(announce_.get(), IPPROTO_IP, IP_ADD_MEMBERSHIP, &membership, sizeof membership);
  }

  template <class Step>
  void with_mapper(const Step& step) {
    if (!mapper_) return;
    Mapper::Outbox out;
    step(*mapper_, out);
    // Each action may add more.
    for (std::size_t i = 0; i < out.size(); ++i) {
      Mapper::Action action = std::move(out[i]);
      std::visit([&](auto& value) { act(value, out); }, action);
    }
  }

  void act(const Mapper::Send& send, Mapper::Outbox&) {
    static_cast<void>(::send(socket_.get(), send.datagram.data(), send.datagram.size(), 0));
  }

  void act(const Line& line, Mapper::Outbox&) { say(line); }

  void act(const Mapper::AskUpnp& ask, Mapper::Outbox& out) {
    alarm(kUpnpSecondsMax);
    if (ask.remove) {
      if (upnp_) upnp_->remove(ask.outer_port);
      mapper_->upnp_removed(out);
    } else {
      const auto mapping = map_by_upnp(ask);
      if (!mapping) upnp_.reset();  // search again
      mapper_->upnp_mapped(mapping, now(), out);
    }
    alarm(0);
  }

  base::Result<Mapping> map_by_upnp(const Mapper::AskUpnp& ask) {
    if (!upnp_) {
      auto found = Upnp::find(route_->own, route_->gateway);
      if (!found) return base::fail(std::move(found.error()));
      upnp_ = std::move(*found);
    }
    return upnp_->map(listen_.port, ask.outer_port, ask.lifetime);
  }

  void say(const Line& line) {
    const std::string text = write_line(line) + "\n";
    if (write(STDOUT_FILENO, text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
      unheard_ = true;
    }
  }

  bool v4_;
  base::IpPort listen_;
  const std::string& machine_;
  bool looked_ = false;
  bool unheard_ = false;
  std::optional<Route> route_;
  std::optional<Mapper> mapper_;
  std::unique_ptr<Upnp> upnp_;
  base::Descriptor socket_{-1};
  base::Descriptor announce_{-1};
};

class Process {
 public:
  Process(const base::IpPort& listen, std::string machine, int signals)
      : machine_(std::move(machine)), signals_(signals) {
    const base::Ip& at = listen.ip;
    if (at.is_v4() || at.is_any()) families_.emplace_back(true, listen, machine_);
    if (at.is_v6()) families_.emplace_back(false, listen, machine_);
  }

  void run() {
    base::Time look_at = now();
    while (!ending_ || !std::ranges::all_of(families_, &Family::ended)) {
      if (!ending_ && now() >= look_at) {
        for (Family& family : families_) family.look_at_route();
        look_at = now() + kLookEvery;
      }
      wait(look_at);
      for (Family& family : families_) family.expire();
    }
  }

 private:
  void wait(base::Time latest) {
    std::vector<pollfd> polled;
    if (!ending_) {
      polled.push_back({STDIN_FILENO, POLLIN, 0});
      polled.push_back({signals_, POLLIN, 0});
    }
    const std::size_t first = polled.size();
    base::Earliest next;
    next.add(latest);
    for (const Family& family : families_) {
      next.add(family.next_deadline());
      for (const int descriptor : family.descriptors()) polled.push_back({descriptor, POLLIN, 0});
    }
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(*next.value() - now()).count();
    if (poll(polled.data(), polled.size(), static_cast<int>(std::max<std::int64_t>(left, 0))) <=
        0) {
      return;
    }
    for (std::size_t i = first; i < polled.size(); ++i) {
      if (polled[i].revents == 0) continue;
      for (Family& family : families_) {
        const auto own = family.descriptors();
        if (std::ranges::find(own, polled[i].fd) != own.end()) family.receive(polled[i].fd);
      }
    }
    // Standard input is never written to: all there is to read is its end.
    for (std::size_t i = 0; i < first; ++i) {
      if (polled[i].revents != 0) return end();
    }
    if (std::ranges::any_of(families_, &Family::unheard)) end();
  }

  void end() {
    if (std::exchange(ending_, true)) return;
    for (Family& family : families_) family.end();
  }

  std::string machine_;
  int signals_;
  std::vector<Family> families_;
  bool ending_ = false;
};

}  // namespace

int map_port(const std::string& listen) {
  const auto parsed = parse_address(listen);
  const auto address = parsed ? numeric_address(*parsed) : std::nullopt;
  if (!address || address->port == 0) {
    std::fprintf(stderr, "starling map-port: give the address that is listened on, ip:port\n");
    return kUsageExit;
  }
  // Ctrl-C is for the peer, which then ends this process.
  for (const int number : {SIGINT, SIGHUP, SIGPIPE}) signal(number, SIG_IGN);
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGTERM);
  sigprocmask(SIG_SETMASK, &ends, nullptr);
  std::string machine = machine_secret();
  if (auto sealed = enter_sandbox(); !sealed) {
    std::fprintf(stderr, "starling map-port: %s\n", sealed.error().text.c_str());
    return kFailedExit;
  }
  const base::Descriptor signals(signalfd(-1, &ends, SFD_CLOEXEC));
  Process process(*address, std::move(machine), signals.get());
  process.run();
  return 0;
}

}  // namespace starling::io::router
