// IP addresses of both families, as values. Nothing here asks a name server.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace starling::base {

/// A host's address. An IPv4 address mapped into IPv6 (::ffff:a.b.c.d), as sockets for both
/// families show it, is that IPv4 address. Ordered by family (IPv4 first), bytes and interface.
class Ip {
 public:
  using Bytes16 = std::array<std::uint8_t, 16>;

  /// 0.0.0.0: all IPv4 addresses of a machine.
  Ip() = default;
  /// ::, all addresses of a machine; of both families for a socket that is not only for IPv6.
  [[nodiscard]] static Ip any_v6() noexcept;
  /// 127.0.0.1.
  [[nodiscard]] static Ip loopback() noexcept { return v4(0x7f00'0001); }
  /// a.b.c.d, a in the highest eight bits.
  [[nodiscard]] static Ip v4(std::uint32_t number) noexcept;
  /// From 4 or 16 bytes in network order; nothing for any other number of bytes.
  [[nodiscard]] static std::optional<Ip> of_bytes(std::span<const std::uint8_t> bytes) noexcept;
  /// From "a.b.c.d" or "2001:db8::1" alone: no brackets, no interface ("%eth0").
  [[nodiscard]] static std::optional<Ip> parse(std::string_view text) noexcept;
  /// The same address at an interface of this machine, by its number; 0: at none. Only IPv6
  /// link-local addresses have one: for others it has no meaning, and would make equal addresses
  /// differ.
  [[nodiscard]] Ip on_interface(std::uint32_t number) const noexcept;

  [[nodiscard]] bool is_v4() const noexcept { return !v6_; }
  [[nodiscard]] bool is_v6() const noexcept { return v6_; }
  /// 4 or 16 bytes in network order; valid as long as this.
  [[nodiscard]] std::span<const std::uint8_t> bytes() const noexcept {
    return std::span(bytes_).first(v6_ ? 16 : 4);
  }
  /// 16 bytes for either family, IPv4 as ::ffff:a.b.c.d.
  [[nodiscard]] Bytes16 mapped() const noexcept;
  /// 0: none.
  [[nodiscard]] std::uint32_t interface() const noexcept { return interface_; }

  /// 0.0.0.0 or ::.
  [[nodiscard]] bool is_any() const noexcept;
  [[nodiscard]] bool is_loopback() const noexcept;
  /// Valid only within one network segment: 169.254/16, fe80::/10.
  [[nodiscard]] bool is_link_local() const noexcept;
  /// Of private networks: 10/8, 172.16/12, 192.168/16, fc00::/7.
  [[nodiscard]] bool is_private() const noexcept;
  /// Behind a provider's NAT, whose customers share it (RFC 6598): 100.64/10.
  [[nodiscard]] bool is_shared() const noexcept;
  /// One machine on the internet, as far as the number tells: none of the above, and not a
  /// multicast, broadcast or reserved address.
  [[nodiscard]] bool is_global() const noexcept;

  /// Both have the same family and the same first `bits` bits.
  [[nodiscard]] bool shares_prefix(const Ip& other, unsigned bits) const noexcept;
  /// Both belong to the same holder: the same IPv4 address, or the same IPv6 /64, which one
  /// customer gets.
  [[nodiscard]] bool same_holder(const Ip& other) const noexcept {
    return shares_prefix(other, v6_ ? 64 : 32) && interface_ == other.interface_;
  }

  /// "a.b.c.d", "2001:db8::1"; with an interface "fe80::1%eth0", and only then is the system asked.
  /// An interface that is gone is shown by its number.
  [[nodiscard]] std::string text() const;

  friend auto operator<=>(const Ip&, const Ip&) = default;

 private:
  /// IPv4 as the number that v4() takes.
  [[nodiscard]] std::uint32_t number() const noexcept;

  bool v6_ = false;
  Bytes16 bytes_{};  ///< for IPv4 the first four count
  std::uint32_t interface_ = 0;
};

struct IpPort {
  Ip ip;
  std::uint16_t port = 0;

  friend auto operator<=>(const IpPort&, const IpPort&) = default;
};

/// The parts of "host:port" or "[host]:port"; nothing if there is no port. The host may be empty or
/// anything else: it is not checked.
struct AddressParts {
  std::string_view host;  ///< without brackets
  std::uint16_t port = 0;
  bool brackets = false;
};
[[nodiscard]] std::optional<AddressParts> split_address(std::string_view text) noexcept;

/// "host:port", with brackets around IPv6: "a.b.c.d:port", "[2001:db8::1]:port".
[[nodiscard]] std::string to_address(std::string_view host, std::uint16_t port);
[[nodiscard]] std::string to_string(const IpPort& address);
/// From a text as to_string() makes it; nothing for other texts, and if there is an interface.
[[nodiscard]] std::optional<IpPort> parse_ip_port(std::string_view text) noexcept;

}  // namespace starling::base
