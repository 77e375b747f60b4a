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

/// A host's address. An IPv4 address in IPv6's clothes (::ffff:a.b.c.d), as sockets for both
/// families show them, is that IPv4 address. Ordered by family (IPv4 first), bytes and interface.
class Ip {
 public:
  using Bytes16 = std::array<std::uint8_t, 16>;

  /// 0.0.0.0: all IPv4 addresses of a machine.
  Ip() = default;
  /// ::, all addresses of a machine; those of both families for a socket that is not for IPv6
  /// alone.
  [[nodiscard]] static Ip any_v6() noexcept;
  /// 127.0.0.1.
  [[nodiscard]] static Ip loopback() noexcept { return v4(0x7f00'0001); }
  /// a.b.c.d, a in the highest eight bits.
  [[nodiscard]] static Ip v4(std::uint32_t number) noexcept;
  /// Of 4 or 16 bytes in the order of the network; nothing for another number of them.
  [[nodiscard]] static std::optional<Ip> of_bytes(std::span<const std::uint8_t> bytes) noexcept;
  /// Of "a.b.c.d" or "2001:db8::1" alone: no brackets, no interface ("%eth0").
  [[nodiscard]] static std::optional<Ip> parse(std::string_view text) noexcept;
  /// The same at an interface of this machine, by its number; 0: at none. Only link-local addresses
  /// of IPv6 have one: elsewhere it says nothing, and would make equal addresses differ.
  [[nodiscard]] Ip on_interface(std::uint32_t number) const noexcept;

  [[nodiscard]] bool is_v4() const noexcept { return !v6_; }
  [[nodiscard]] bool is_v6() const noexcept { return v6_; }
  /// 4 or 16, in the order of the network; as long as this.
  [[nodiscard]] std::span<const std::uint8_t> bytes() const noexcept {
    return std::span(bytes_).first(v6_ ? 16 : 4);
  }
  /// 16 of either family, IPv4 as ::ffff:a.b.c.d.
  [[nodiscard]] Bytes16 mapped() const noexcept;
  /// 0: none.
  [[nodiscard]] std::uint32_t interface() const noexcept { return interface_; }

  /// 0.0.0.0 or ::.
  [[nodiscard]] bool is_any() const noexcept;
  [[nodiscard]] bool is_loopback() const noexcept;
  /// Leads nowhere but within one network segment: 169.254/16, fe80::/10.
  [[nodiscard]] bool is_link_local() const noexcept;
  /// Of networks that the internet does not know: 10/8, 172.16/12, 192.168/16, fc00::/7.
  [[nodiscard]] bool is_private() const noexcept;
  /// Behind a provider's NAT, whose customers share it (RFC 6598): 100.64/10.
  [[nodiscard]] bool is_shared() const noexcept;
  /// One machine of the whole internet, as far as the number tells: nothing of the above, and no
  /// multicast, broadcast or reserved address.
  [[nodiscard]] bool is_global() const noexcept;

  /// Both have the same family and the same first `bits` bits.
  [[nodiscard]] bool shares_prefix(const Ip& other, unsigned bits) const noexcept;
  /// Both are of whoever has one of them: the same IPv4 address, or the same /64 of IPv6, which is
  /// what one customer gets.
  [[nodiscard]] bool same_holder(const Ip& other) const noexcept {
    return shares_prefix(other, v6_ ? 64 : 32) && interface_ == other.interface_;
  }

  /// "a.b.c.d", "2001:db8::1"; with an interface "fe80::1%eth0", for which alone the system is
  /// asked. An interface that is gone has no name any more, but its number.
  [[nodiscard]] std::string text() const;

  friend auto operator<=>(const Ip&, const Ip&) = default;

 private:
  /// IPv4 as v4() takes it.
  [[nodiscard]] std::uint32_t number() const noexcept;

  bool v6_ = false;
  Bytes16 bytes_{};  ///< of IPv4 the first four count
  std::uint32_t interface_ = 0;
};

struct IpPort {
  Ip ip;
  std::uint16_t port = 0;

  friend auto operator<=>(const IpPort&, const IpPort&) = default;
};

/// "host:port" or "[host]:port" in its parts; nothing where there is no port. The host may be
/// empty, and says nothing yet of what it is.
struct AddressParts {
  std::string_view host;  ///< without brackets
  std::uint16_t port = 0;
  bool brackets = false;
};
[[nodiscard]] std::optional<AddressParts> split_address(std::string_view text) noexcept;

/// "host:port", with brackets around IPv6: "a.b.c.d:port", "[2001:db8::1]:port".
[[nodiscard]] std::string to_address(std::string_view host, std::uint16_t port);
[[nodiscard]] std::string to_string(const IpPort& address);
/// Of a text as to_string() makes it; nothing for others, and where there is an interface.
[[nodiscard]] std::optional<IpPort> parse_ip_port(std::string_view text) noexcept;

}  // namespace starling::base
