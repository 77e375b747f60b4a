// The address of a socket: IPv4 or IPv6, with a port.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>

#include <netinet/in.h>

namespace starling::io {

/// A value. An IPv4 address in IPv6's clothes (::ffff:a.b.c.d), as sockets for both families show
/// them, is that IPv4 address. Ordered by family (IPv4 first), host, interface and port.
class SocketAddress {
 public:
  /// 0.0.0.0:0.
  SocketAddress() noexcept;
  SocketAddress(const sockaddr_in& address) noexcept;   // NOLINT: as good as one of this
  SocketAddress(const sockaddr_in6& address) noexcept;  // NOLINT
  /// Of what a system call has filled in; nothing for other families.
  [[nodiscard]] static std::optional<SocketAddress> from(const sockaddr* address) noexcept;
  [[nodiscard]] static std::optional<SocketAddress> from(const sockaddr_storage& address) noexcept {
    return from(reinterpret_cast<const sockaddr*>(&address));
  }
  /// All addresses of this machine, of both families (the socket must not be for IPv6 alone).
  [[nodiscard]] static SocketAddress any_of_both(std::uint16_t port) noexcept;
  /// All IPv4 addresses of this machine.
  [[nodiscard]] static SocketAddress any_v4(std::uint16_t port) noexcept;
  /// This machine for itself, by the family of `like`.
  [[nodiscard]] static SocketAddress loopback(const SocketAddress& like) noexcept;

  /// For socket calls.
  [[nodiscard]] const sockaddr* raw() const noexcept { return &address_.any; }
  [[nodiscard]] socklen_t size() const noexcept;
  [[nodiscard]] int family() const noexcept { return address_.any.sa_family; }
  [[nodiscard]] bool is_v4() const noexcept { return family() == AF_INET; }
  /// Nothing for IPv6.
  [[nodiscard]] std::optional<sockaddr_in> v4() const noexcept;
  /// For a socket of IPv6 that talks IPv4, too: IPv4 as ::ffff:a.b.c.d.
  [[nodiscard]] sockaddr_in6 v6() const noexcept;

  [[nodiscard]] std::uint16_t port() const noexcept;
  [[nodiscard]] SocketAddress with_port(std::uint16_t port) const noexcept;
  /// Without the port: "a.b.c.d", or "2001:db8::1", "fe80::1%eth0" without brackets.
  [[nodiscard]] std::string host() const;
  /// Number of the interface that a link-local IPv6 address belongs to; 0: none.
  [[nodiscard]] std::uint32_t scope() const noexcept;

  [[nodiscard]] bool is_any() const noexcept;
  [[nodiscard]] bool is_loopback() const noexcept;
  /// Leads nowhere but within one network segment: 169.254/16, fe80::/10.
  [[nodiscard]] bool is_link_local() const noexcept;
  /// Of networks that the internet does not know: 10/8, 172.16/12, 192.168/16, 100.64/10 (behind a
  /// provider's NAT), fc00::/7.
  [[nodiscard]] bool is_private() const noexcept;
  /// One machine of the whole internet, as far as the number tells: nothing of the above, and no
  /// multicast, broadcast or reserved address.
  [[nodiscard]] bool is_global() const noexcept;

  /// Both are of one host, ports aside.
  [[nodiscard]] bool same_host(const SocketAddress& other) const noexcept {
    return with_port(0) == other.with_port(0);
  }
  /// Both are of whoever has one of them: the same IPv4 address, or the same /64 of IPv6, which is
  /// what one customer gets.
  [[nodiscard]] bool same_holder(const SocketAddress& other) const noexcept;

  friend bool operator==(const SocketAddress& a, const SocketAddress& b) noexcept {
    return (a <=> b) == 0;
  }
  friend std::strong_ordering operator<=>(const SocketAddress& a, const SocketAddress& b) noexcept;

 private:
  /// In the order of the network; of IPv4 four.
  [[nodiscard]] const std::uint8_t* bytes() const noexcept;
  /// IPv4 as a number.
  [[nodiscard]] std::uint32_t number() const noexcept;

  union {
    sockaddr any;
    sockaddr_in v4;
    sockaddr_in6 v6;
  } address_;
};

/// "a.b.c.d:port", "[2001:db8::1]:port".
[[nodiscard]] std::string to_string(const SocketAddress& address);

}  // namespace starling::io
