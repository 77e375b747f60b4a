#include "io/socket_address.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include <arpa/inet.h>
#include <fmt/format.h>
#include <net/if.h>

namespace starling::io {
namespace {

constexpr std::size_t kV4Size = 4;
constexpr std::size_t kV6Size = 16;
constexpr std::size_t kHolderSize = 8;  ///< of IPv6: a /64

}  // namespace

SocketAddress::SocketAddress() noexcept : SocketAddress(sockaddr_in{}) {}

SocketAddress::SocketAddress(const sockaddr_in& address) noexcept : address_{} {
  address_.v4.sin_family = AF_INET;
  address_.v4.sin_port = address.sin_port;
  address_.v4.sin_addr = address.sin_addr;
}

SocketAddress::SocketAddress(const sockaddr_in6& address) noexcept : address_{} {
  const in6_addr& host = address.sin6_addr;
  if (IN6_IS_ADDR_V4MAPPED(&host)) {
    address_.v4.sin_family = AF_INET;
    address_.v4.sin_port = address.sin6_port;
    std::memcpy(&address_.v4.sin_addr, host.s6_addr + kV6Size - kV4Size, kV4Size);
    return;
  }
  address_.v6.sin6_family = AF_INET6;
  address_.v6.sin6_port = address.sin6_port;
  address_.v6.sin6_addr = host;
  // Elsewhere it says nothing, and would make equal addresses differ.
  if (IN6_IS_ADDR_LINKLOCAL(&host)) address_.v6.sin6_scope_id = address.sin6_scope_id;
}

std::optional<SocketAddress> SocketAddress::from(const sockaddr* address) noexcept {
  if (address == nullptr) return std::nullopt;
  if (address->sa_family == AF_INET) return *reinterpret_cast<const sockaddr_in*>(address);
  if (address->sa_family == AF_INET6) return *reinterpret_cast<const sockaddr_in6*>(address);
  return std::nullopt;
}

SocketAddress SocketAddress::any_of_both(std::uint16_t port) noexcept {
  sockaddr_in6 any{};
  any.sin6_family = AF_INET6;
  any.sin6_port = htons(port);
  return any;
}

SocketAddress SocketAddress::any_v4(std::uint16_t port) noexcept {
  return SocketAddress().with_port(port);
}

SocketAddress SocketAddress::loopback(const SocketAddress& like) noexcept {
  if (like.is_v4()) {
    sockaddr_in made{};
    made.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return SocketAddress(made).with_port(like.port());
  }
  sockaddr_in6 made{};
  made.sin6_addr = in6addr_loopback;
  return SocketAddress(made).with_port(like.port());
}

socklen_t SocketAddress::size() const noexcept {
  return is_v4() ? sizeof address_.v4 : sizeof address_.v6;
}

std::optional<sockaddr_in> SocketAddress::v4() const noexcept {
  if (!is_v4()) return std::nullopt;
  return address_.v4;
}

sockaddr_in6 SocketAddress::v6() const noexcept {
  if (!is_v4()) return address_.v6;
  sockaddr_in6 mapped{};
  mapped.sin6_family = AF_INET6;
  mapped.sin6_port = address_.v4.sin_port;
  std::fill_n(mapped.sin6_addr.s6_addr + kV6Size - kV4Size - 2, 2, std::uint8_t{0xff});
  std::memcpy(mapped.sin6_addr.s6_addr + kV6Size - kV4Size, &address_.v4.sin_addr, kV4Size);
  return mapped;
}

std::uint16_t SocketAddress::port() const noexcept {
  return ntohs(is_v4() ? address_.v4.sin_port : address_.v6.sin6_port);
}

SocketAddress SocketAddress::with_port(std::uint16_t port) const noexcept {
  SocketAddress made = *this;
  (is_v4() ? made.address_.v4.sin_port : made.address_.v6.sin6_port) = htons(port);
  return made;
}

std::string SocketAddress::host() const {
  std::array<char, INET6_ADDRSTRLEN> text{};
  inet_ntop(family(), bytes(), text.data(), text.size());
  std::string host = text.data();
  if (scope() == 0) return host;
  std::array<char, IF_NAMESIZE> name{};
  // An interface that is gone has no name any more.
  if (if_indextoname(scope(), name.data()) != nullptr) return host + "%" + name.data();
  return fmt::format("{}%{}", host, scope());
}

std::uint32_t SocketAddress::scope() const noexcept {
  return is_v4() ? 0 : address_.v6.sin6_scope_id;
}

bool SocketAddress::is_any() const noexcept {
  return is_v4() ? number() == INADDR_ANY : IN6_IS_ADDR_UNSPECIFIED(&address_.v6.sin6_addr) != 0;
}

bool SocketAddress::is_loopback() const noexcept {
  if (is_v4()) return number() >> 24 == IN_LOOPBACKNET;
  return IN6_IS_ADDR_LOOPBACK(&address_.v6.sin6_addr) != 0;
}

bool SocketAddress::is_link_local() const noexcept {
  if (is_v4()) return number() >> 16 == 0xa9fe;
  return IN6_IS_ADDR_LINKLOCAL(&address_.v6.sin6_addr) != 0;
}

bool SocketAddress::is_private() const noexcept {
  if (!is_v4()) return (bytes()[0] & 0xfe) == 0xfc;
  const std::uint32_t ip = number();
  return ip >> 24 == 10 || ip >> 20 == 0xac1 || ip >> 16 == 0xc0a8 || ip >> 22 == 0x191;
}

bool SocketAddress::is_global() const noexcept {
  if (is_any() || is_loopback() || is_link_local() || is_private()) return false;
  if (is_v4()) return number() >> 24 != 0 && number() >> 24 < 224;
  return (bytes()[0] & 0xe0) == 0x20;  // 2000::/3, all that is given out
}

bool SocketAddress::same_holder(const SocketAddress& other) const noexcept {
  if (is_v4() || other.is_v4()) return same_host(other);
  return std::equal(bytes(), bytes() + kHolderSize, other.bytes()) && scope() == other.scope();
}

std::strong_ordering operator<=>(const SocketAddress& a, const SocketAddress& b) noexcept {
  if (a.is_v4() != b.is_v4()) {
    return a.is_v4() ? std::strong_ordering::less : std::strong_ordering::greater;
  }
  const int host = std::memcmp(a.bytes(), b.bytes(), a.is_v4() ? kV4Size : kV6Size);
  if (host != 0) return host <=> 0;
  if (a.scope() != b.scope()) return a.scope() <=> b.scope();
  return a.port() <=> b.port();
}

const std::uint8_t* SocketAddress::bytes() const noexcept {
  if (!is_v4()) return address_.v6.sin6_addr.s6_addr;
  return reinterpret_cast<const std::uint8_t*>(&address_.v4.sin_addr);
}

std::uint32_t SocketAddress::number() const noexcept { return ntohl(address_.v4.sin_addr.s_addr); }

std::string to_string(const SocketAddress& address) {
  return fmt::format(fmt::runtime(address.is_v4() ? "{}:{}" : "[{}]:{}"), address.host(),
                     address.port());
}

}  // namespace starling::io
