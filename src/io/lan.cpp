#include "io/lan.hpp"

#include <algorithm>
#include <cstring>

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <uv.h>

#include "base/assert.hpp"
#include "base/hash.hpp"
#include "io/address.hpp"

namespace starling::io {
namespace {

constexpr char kMagic[9] = "STARLAN\n";
constexpr char kGroup[] = "239.255.84.76";  // of the range that stays inside an organisation
constexpr int kMulticastHops = 1;

std::string name_of(const in_addr& address) {
  std::array<char, INET_ADDRSTRLEN> text{};
  inet_ntop(AF_INET, &address, text.data(), text.size());
  return text.data();
}

template <class T>
void put(std::byte*& at, const T& value) {
  std::memcpy(at, &value, sizeof value);
  at += sizeof value;
}

template <class T>
void get(const std::byte*& at, T& value) {
  std::memcpy(&value, at, sizeof value);
  at += sizeof value;
}

}  // namespace

std::array<std::byte, kAnnouncementSize> pack(const Announcement& announcement) {
  std::array<std::byte, kAnnouncementSize> bytes{};
  std::byte* at = bytes.data();
  std::memcpy(at, kMagic, 8);
  at += 8;
  put(at, kLanVersion);
  put(at, announcement.run.bytes);
  put(at, announcement.id.bytes);
  put(at, announcement.port);
  const auto covered = static_cast<std::size_t>(at - bytes.data());
  put(at, base::xxh3(base::ByteView(bytes.data(), covered)));
  ASSERT(at == bytes.data() + bytes.size());
  return bytes;
}

std::optional<Announcement> unpack_announcement(base::ByteView bytes) {
  if (bytes.size() != kAnnouncementSize) return std::nullopt;
  if (std::memcmp(bytes.data(), kMagic, 8) != 0) return std::nullopt;
  const std::byte* at = bytes.data() + 8;
  std::uint8_t version = 0;
  get(at, version);
  Announcement heard;
  get(at, heard.run.bytes);
  get(at, heard.id.bytes);
  get(at, heard.port);
  const auto covered = static_cast<std::size_t>(at - bytes.data());
  std::uint64_t checksum = 0;
  get(at, checksum);
  if (version != kLanVersion || heard.port == 0 || checksum != base::xxh3(bytes.first(covered))) {
    return std::nullopt;
  }
  return heard;
}

std::vector<LanInterface> lan_interfaces() {
  std::vector<LanInterface> found;
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return found;
  for (const ifaddrs* one = all; one != nullptr && found.size() < kLanInterfacesMax;
       one = one->ifa_next) {
    if (one->ifa_addr == nullptr || one->ifa_addr->sa_family != AF_INET) continue;
    if ((one->ifa_flags & IFF_UP) == 0) continue;
    const auto ip = [](const sockaddr* address) {
      return reinterpret_cast<const sockaddr_in*>(address)->sin_addr;
    };
    LanInterface interface {
      .name = one->ifa_name, .address = ip(one->ifa_addr), .broadcast = {}
    };
    interface.multicast = (one->ifa_flags & IFF_MULTICAST) != 0;
    if ((one->ifa_flags & IFF_LOOPBACK) != 0) {
      interface.broadcast = in_addr{htonl(0x7fffffff)};  // for peers on this machine
    } else if ((one->ifa_flags & IFF_BROADCAST) != 0 && one->ifa_broadaddr != nullptr) {
      interface.broadcast = ip(one->ifa_broadaddr);
    }
    found.push_back(std::move(interface));
  }
  freeifaddrs(all);
  return found;
}

struct Lan::Socket {
  uv_udp_t handle{};
  Lan* owner = nullptr;
  std::array<char, 2 * kAnnouncementSize> buffer{};
};

Lan::Lan(Loop& loop, const Announcement& own, std::uint16_t port, Heard heard)
    : own_(own),
      port_(port),
      heard_(std::move(heard)),
      rng_(own.id.prefix()),
      socket_(new Socket),
      timer_(std::make_unique<Timer>(loop, [this] { announce(); })) {
  ASSERT(uv_udp_init(loop.raw(), &socket_->handle) == 0, "libuv refused to make a handle");
  socket_->handle.data = socket_;
  socket_->owner = this;
}

Lan::~Lan() {
  socket_->owner = nullptr;
  uv_close(reinterpret_cast<uv_handle_t*>(&socket_->handle),
           [](uv_handle_t* closed) { delete static_cast<Socket*>(closed->data); });
}

base::Result<std::unique_ptr<Lan>> Lan::create(Loop& loop, const Announcement& own,
                                               std::uint16_t port, Heard heard) {
  std::unique_ptr<Lan> lan(new Lan(loop, own, port, std::move(heard)));
  if (auto opened = lan->open(); !opened) return base::fail(std::move(opened.error()));
  lan->announce();
  return lan;
}

base::Status Lan::open() {
  sockaddr_in any{};
  any.sin_family = AF_INET;
  any.sin_port = htons(port_);
  // Several peers of one machine share the port: each hears what is sent to all.
  int status =
      uv_udp_bind(&socket_->handle, reinterpret_cast<const sockaddr*>(&any), UV_UDP_REUSEADDR);
  if (status == 0) status = uv_udp_set_broadcast(&socket_->handle, 1);
  if (status == 0) status = uv_udp_set_multicast_loop(&socket_->handle, 1);
  if (status == 0) status = uv_udp_set_multicast_ttl(&socket_->handle, kMulticastHops);
  if (status == 0) {
    status = uv_udp_recv_start(
        &socket_->handle,
        [](uv_handle_t* handle, std::size_t, uv_buf_t* buffer) {
          auto* socket = static_cast<Socket*>(handle->data);
          *buffer = uv_buf_init(socket->buffer.data(), socket->buffer.size());
        },
        [](uv_udp_t* handle, ssize_t size, const uv_buf_t* buffer, const sockaddr* from, unsigned) {
          auto* socket = static_cast<Socket*>(handle->data);
          if (size <= 0 || from == nullptr || socket->owner == nullptr) return;
          socket->owner->receive(base::bytes_of(buffer->base, static_cast<std::size_t>(size)),
                                 *reinterpret_cast<const sockaddr_in*>(from), Loop::now());
        });
  }
  if (status == 0) return {};
  return base::fail(base::ErrorCode::network, "cannot look for peers on UDP port {}: {}{}", port_,
                    uv_strerror(status),
                    status == UV_EADDRINUSE
                        ? "; another program has it for itself alone: end it, or use --join"
                        : "");
}

int Lan::send_to(const in_addr& to) {
  sockaddr_in target{};
  target.sin_family = AF_INET;
  target.sin_port = htons(port_);
  target.sin_addr = to;
  auto bytes = pack(own_);
  uv_buf_t buffer = uv_buf_init(reinterpret_cast<char*>(bytes.data()), bytes.size());
  return uv_udp_try_send(&socket_->handle, &buffer, 1, reinterpret_cast<const sockaddr*>(&target));
}

// Interfaces come and go, so they are looked up each time.
void Lan::announce() {
  sent_.clear();
  in_addr group{};
  inet_pton(AF_INET, kGroup, &group);
  for (const LanInterface& interface : lan_interfaces()) {
    if (!interface.multicast && !interface.broadcast) continue;
    const std::string address = name_of(interface.address);
    int best = UV_ENETUNREACH;
    if (interface.multicast) {
      // Fails where this peer is a member of the group there already.
      static_cast<void>(
          uv_udp_set_membership(&socket_->handle, kGroup, address.c_str(), UV_JOIN_GROUP));
      int status = uv_udp_set_multicast_interface(&socket_->handle, address.c_str());
      if (status == 0) status = send_to(group);
      best = std::max(best, status);
    }
    if (interface.broadcast) best = std::max(best, send_to(*interface.broadcast));
    sent_[fmt::format("{} ({})", interface.name, address)] = best >= 0 ? "" : uv_strerror(best);
  }
  const base::Duration pause = ++announced_ < kLanFastCount ? kLanFast : kLanSlow;
  timer_->start(base::from_seconds(base::seconds(pause) * (0.75 + 0.5 * rng_.uniform())));
}

void Lan::receive(base::ByteView bytes, const SocketAddress& from, base::Time now) {
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
      other_runs_.insert(fmt::format("{} (run {})", from.host(), heard->run.hex().substr(0, 8)));
    }
    return;
  }
  const std::string address = to_string(from.with_port(heard->port));
  // By both: whoever announces another's id does not keep that one from being heard.
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
        "no peer answers, but {} datagrams on UDP port {} are no announcements of version {}: "
        "another program, or another version of this one",
        malformed_, port_, int{kLanVersion});
  }
  return fmt::format(
      "nobody answers on {}, UDP port {}{}: is another peer up with --lan on the same network, and "
      "does a firewall or the access point drop multicast and broadcast?",
      where(), port_, own_heard_ > 0 ? "" : " (not even the own announcements come back)");
}

}  // namespace starling::io
