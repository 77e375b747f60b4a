#include "io/lan.hpp"

#include <algorithm>
#include <cstring>

#include <fmt/core.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <uv.h>

#include "base/assert.hpp"
#include "base/endian.hpp"
#include "base/hash.hpp"
#include "io/interfaces.hpp"
#include "io/netlink.hpp"
#include "io/raw_address.hpp"

namespace starling::io {
namespace {

constexpr char kMagic[9] = "STARLAN\n";
// Places in an announcement.
constexpr std::size_t kVersionAt = 8;
constexpr std::size_t kRunAt = kVersionAt + sizeof kLanVersion;
constexpr std::size_t kIdAt = kRunAt + sizeof(wire::RunId::bytes);
constexpr std::size_t kPortAt = kIdAt + sizeof(base::PeerId::bytes);
constexpr std::size_t kChecksumAt = kPortAt + sizeof(std::uint16_t);
static_assert(kChecksumAt + sizeof(std::uint64_t) == kAnnouncementSize);

constexpr char kGroup[] = "239.255.84.76";  // of the range that stays inside an organisation
constexpr char kGroup6[] = "ff02::5354:4152:4c4e";  // of one network segment
constexpr int kMulticastHops = 1;

}  // namespace

std::array<std::byte, kAnnouncementSize> pack(const Announcement& announcement) {
  std::array<std::byte, kAnnouncementSize> bytes{};
  std::memcpy(bytes.data(), kMagic, kVersionAt);
  base::store_little(bytes, kVersionAt, kLanVersion);
  base::store_little(bytes, kRunAt, announcement.run.bytes);
  base::store_little(bytes, kIdAt, announcement.id.bytes);
  base::store_little(bytes, kPortAt, announcement.port);
  base::store_little(bytes, kChecksumAt, base::xxh3(base::ByteView(bytes).first(kChecksumAt)));
  return bytes;
}

std::optional<Announcement> unpack_announcement(base::ByteView bytes) {
  if (bytes.size() != kAnnouncementSize) return std::nullopt;
  if (std::memcmp(bytes.data(), kMagic, kVersionAt) != 0) return std::nullopt;
  Announcement heard;
  heard.run.bytes = base::load_little<decltype(heard.run.bytes)>(bytes, kRunAt);
  heard.id.bytes = base::load_little<decltype(heard.id.bytes)>(bytes, kIdAt);
  heard.port = base::load_little<std::uint16_t>(bytes, kPortAt);
  if (base::load_little<std::uint8_t>(bytes, kVersionAt) != kLanVersion || heard.port == 0 ||
      base::load_little<std::uint64_t>(bytes, kChecksumAt) !=
          base::xxh3(bytes.first(kChecksumAt))) {
    return std::nullopt;
  }
  return heard;
}

std::vector<LanInterface> lan_interfaces() {
  std::vector<LanInterface> found;
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return found;
  for (const ifaddrs* one = all; one != nullptr; one = one->ifa_next) {
    const auto own = ip_port_of(one->ifa_addr);
    if (!own || (one->ifa_flags & IFF_UP) == 0) continue;
    const base::Ip& address = own->ip;
    // IPv6 announcements on a segment come from the link-local address, which each interface has.
    if (!address.is_v4() && !address.is_link_local()) continue;
    LanInterface& interface = found.emplace_back(
        LanInterface{.name = one->ifa_name, .address = address, .broadcast = {}});
    interface.multicast = (one->ifa_flags & IFF_MULTICAST) != 0;
    if (!address.is_v4()) continue;
    if ((one->ifa_flags & IFF_LOOPBACK) != 0) {
      interface.broadcast = base::Ip::v4(0x7fff'ffff);  // for peers on this machine
    } else if ((one->ifa_flags & IFF_BROADCAST) != 0) {
      if (const auto to = ip_port_of(one->ifa_broadaddr)) interface.broadcast = to->ip;
    }
  }
  freeifaddrs(all);
  const std::vector<NetLink> links = net_links();
  std::stable_partition(found.begin(), found.end(), [&](const LanInterface& interface) {
    const auto link = std::ranges::find(links, interface.name, &NetLink::name);
    return link == links.end() || !is_inner_bridge(*link, links);
  });
  if (found.size() > kLanInterfacesMax) found.resize(kLanInterfacesMax);
  return found;
}

struct Lan::Socket {
  uv_udp_t handle{};
  Lan* owner = nullptr;
  std::array<char, 2 * kAnnouncementSize> buffer{};

  static Socket* make(Loop& loop, Lan* owner) {
    auto socket = std::make_unique<Socket>();
    ASSERT(uv_udp_init(loop.raw(), &socket->handle) == 0, "libuv refused to make a handle");
    socket->handle.data = socket.get();
    socket->owner = owner;
    return socket.release();
  }

  void close() {
    owner = nullptr;
    uv_close(reinterpret_cast<uv_handle_t*>(&handle),
             [](uv_handle_t* closed) { delete static_cast<Socket*>(closed->data); });
  }
};

Lan::Lan(Loop& loop, const Announcement& own, const base::Ip& bound, std::uint16_t port,
         Heard heard)
    : own_(own),
      bound_(bound),
      port_(port),
      heard_(std::move(heard)),
      rng_(own.id.prefix()),
      v4_(Socket::make(loop, this)),
      v6_(Socket::make(loop, this)),
      timer_(std::make_unique<Timer>(loop, [this] { announce(); })) {}

Lan::~Lan() {
  v4_->close();
  v6_->close();
}

base::Result<std::unique_ptr<Lan>> Lan::create(Loop& loop, const Announcement& own,
                                               const base::Ip& bound, std::uint16_t port,
                                               Heard heard) {
  std::unique_ptr<Lan> lan(new Lan(loop, own, bound, port, std::move(heard)));
  const int status = lan->open(*lan->v4_, base::Ip());
  if (status != 0) {
    return base::fail(base::ErrorCode::network, "cannot look for peers on UDP port {}: {}{}", port,
                      uv_strerror(status),
                      status == UV_EADDRINUSE
                          ? "; another program does not share it: end it, or use --join"
                          : "");
  }
  lan->has_v6_ = lan->open(*lan->v6_, base::Ip::any_v6()) == 0;
  lan->announce();
  return lan;
}

int Lan::open(Socket& socket, const base::Ip& at) {
  // Several peers of one machine share the port: each hears packets to all. IPv4 has its own
  // socket.
  const unsigned flags = UV_UDP_REUSEADDR | (at.is_v4() ? 0U : unsigned{UV_UDP_IPV6ONLY});
  uv_udp_t* handle = &socket.handle;
  int status = uv_udp_bind(handle, RawAddress({at, port_}).get(), flags);
  if (status == 0 && at.is_v4()) status = uv_udp_set_broadcast(handle, 1);
  if (status == 0) status = uv_udp_set_multicast_loop(handle, 1);
  if (status == 0) status = uv_udp_set_multicast_ttl(handle, kMulticastHops);
  if (status != 0) return status;
  return uv_udp_recv_start(
      handle,
      [](uv_handle_t* receiving, std::size_t, uv_buf_t* buffer) {
        auto* into = static_cast<Socket*>(receiving->data);
        *buffer = uv_buf_init(into->buffer.data(), into->buffer.size());
      },
      [](uv_udp_t* received, ssize_t size, const uv_buf_t* buffer, const sockaddr* from, unsigned) {
        auto* into = static_cast<Socket*>(received->data);
        const auto sender = ip_port_of(from);
        if (size <= 0 || !sender || into->owner == nullptr) return;
        into->owner->receive(base::bytes_of(buffer->base, static_cast<std::size_t>(size)),
                             sender->ip, Loop::now());
      });
}

int Lan::send_to(Socket& socket, const base::Ip& to) {
  auto bytes = pack(own_);
  uv_buf_t buffer = uv_buf_init(reinterpret_cast<char*>(bytes.data()), bytes.size());
  return uv_udp_try_send(&socket.handle, &buffer, 1, RawAddress({to, port_}).get());
}

void Lan::listen_on(const LanInterface& interface) {
  if (!interface.multicast) return;
  const bool is_v4 = interface.address.is_v4();
  // Fails if this peer is already a member of the group there.
  static_cast<void>(uv_udp_set_membership(is_v4 ? &v4_->handle : &v6_->handle,
                                          is_v4 ? kGroup : kGroup6,
                                          interface.address.text().c_str(), UV_JOIN_GROUP));
}

int Lan::announce_on(const LanInterface& interface) {
  const bool is_v4 = interface.address.is_v4();
  Socket& socket = is_v4 ? *v4_ : *v6_;
  const std::string address = interface.address.text();
  int best = UV_ENETUNREACH;
  if (interface.multicast) {
    int status = uv_udp_set_multicast_interface(&socket.handle, address.c_str());
    if (status == 0) status = send_to(socket, base::Ip::parse(is_v4 ? kGroup : kGroup6).value());
    best = std::max(best, status);
  }
  if (interface.broadcast) best = std::max(best, send_to(socket, *interface.broadcast));
  return best;
}

// Interfaces come and go, so they are looked up each time.
void Lan::announce() {
  sent_.clear();
  for (const LanInterface& interface : lan_interfaces()) {
    if (!interface.multicast && !interface.broadcast) continue;
    const bool is_v4 = interface.address.is_v4();
    if (!is_v4 && !has_v6_) continue;
    listen_on(interface);
    // It dials peers that it hears by either family. Others must be able to dial it at the sender's
    // address.
    if (is_v4 ? !bound_.is_v4() && !bound_.is_any() : bound_.is_v4()) continue;
    const int best = announce_on(interface);
    sent_[fmt::format("{} ({})", interface.name, interface.address.text())] =
        best >= 0 ? "" : uv_strerror(best);
  }
  const base::Duration pause = ++announced_ < kLanFastCount ? kLanFast : kLanSlow;
  timer_->start(base::from_seconds(base::seconds(pause) * (0.75 + 0.5 * rng_.uniform())));
}

void Lan::receive(base::ByteView bytes, const base::Ip& from, base::Time now) {
  if (now - second_ >= std::chrono::seconds(1)) {
    second_ = now;
    in_second_ = 0;
  }
  if (++in_second_ > kLanHeardPerSecond) return;
  const auto heard = unpack_announcement(bytes);
  if (!heard) {
    ++malformed_;
    return;
  }
  if (heard->id == own_.id) {
    ++own_heard_;
    return;
  }
  if (heard->run != own_.run) {
    if (other_runs_.size() < kLanRunsMax) {
      other_runs_.insert(fmt::format("{} (run {})", from.text(), heard->run.hex().substr(0, 8)));
    }
    return;
  }
  const std::string address = to_string(base::IpPort{from, heard->port});
  // By both: a sender that announces another peer's id cannot keep that peer from being heard.
  const std::pair key(heard->id, address);
  const auto known = peers_.find(key);
  if (known == peers_.end()) {
    if (peers_.size() >= kLanPeersMax) {
      std::erase_if(peers_, [&](const auto& entry) { return now - entry.second >= kLanAgain; });
      if (peers_.size() >= kLanPeersMax) return;  // it will be heard again
    }
    peers_.emplace(key, now);
  } else {
    if (now - known->second < kLanAgain) return;
    known->second = now;
  }
  heard_(heard->id, address);
}

std::string Lan::where() const {
  std::string text;
  for (const auto& [interface, failure] : sent_) {
    text += (text.empty() ? "" : ", ") + interface;
    if (!failure.empty()) text += ": " + failure;
  }
  return text;
}

std::string Lan::diagnosis() const {
  const bool any_sent = std::any_of(sent_.begin(), sent_.end(),
                                    [](const auto& entry) { return entry.second.empty(); });
  if (sent_.empty()) {
    return "nobody can be found on the network: no interface is up that carries multicast or "
           "broadcast; use --join ADDRESS";
  }
  if (!any_sent) {
    return fmt::format("nobody can be found on the network: nothing could be sent on {}", where());
  }
  if (!other_runs_.empty()) {
    std::string others;
    for (const std::string& other : other_runs_) others += (others.empty() ? "" : ", ") + other;
    return fmt::format("no peer of run {} answers, but of other runs: {}; do the run files differ?",
                       own_.run.hex().substr(0, 8), others);
  }
  if (malformed_ > 0) {
    return fmt::format(
        "no peer answers, but {} datagrams on UDP port {} are not announcements of version {}: "
        "another program, or another version of this one",
        malformed_, port_, int{kLanVersion});
  }
  return fmt::format(
      "nobody answers on {}, UDP port {}{}: is another peer up with --lan on the same network, and "
      "does a firewall or the access point drop multicast and broadcast?",
      where(), port_, own_heard_ > 0 ? "" : " (not even the own announcements come back)");
}

}  // namespace starling::io
