// A host's address without a port, of either family, as a value.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <netinet/in.h>

namespace starling::io::ucx {

/// An IPv4 address in IPv6's clothes (::ffff:a.b.c.d) is that IPv4 address. No scope: link-local
/// IPv6 addresses are nobody's fabric.
class Ip {
 public:
  /// 0.0.0.0.
  Ip() = default;
  /// Nothing for other families than IPv4 and IPv6.
  [[nodiscard]] static std::optional<Ip> from(const sockaddr* address) noexcept;
  [[nodiscard]] static std::optional<Ip> from(const sockaddr_storage& address) noexcept {
    return from(reinterpret_cast<const sockaddr*>(&address));
  }
  /// Of "a.b.c.d" or "2001:db8::1".
  [[nodiscard]] static std::optional<Ip> parse(std::string_view text);

  [[nodiscard]] bool is_v6() const noexcept { return v6_; }
  /// In the order of the network; of IPv4 the first four count.
  [[nodiscard]] const std::array<std::uint8_t, 16>& bytes() const noexcept { return bytes_; }
  [[nodiscard]] bool is_loopback() const noexcept;
  /// Of networks that the internet does not know: 10/8, 172.16/12, 192.168/16, fc00::/7.
  [[nodiscard]] bool is_private() const noexcept;
  /// Both have the same family and the same first `bits` bits.
  [[nodiscard]] bool shares_prefix(const Ip& other, unsigned bits) const noexcept;

  /// For socket calls; the number is the length to give.
  [[nodiscard]] socklen_t to_socket(std::uint16_t port, sockaddr_storage& address) const noexcept;
  [[nodiscard]] std::string text() const;

  friend auto operator<=>(const Ip&, const Ip&) = default;

 private:
  bool v6_ = false;
  std::array<std::uint8_t, 16> bytes_{};
};

/// Port of a socket address, 0 for other families.
[[nodiscard]] std::uint16_t port_of(const sockaddr_storage& address) noexcept;

}  // namespace starling::io::ucx
