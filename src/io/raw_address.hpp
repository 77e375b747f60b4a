// Addresses as socket calls take and give them.
#pragma once

#include <optional>

#include <netinet/in.h>

#include "base/ip.hpp"

namespace starling::io {

/// The argument of a socket call, in the address's own family.
class RawAddress {
 public:
  explicit RawAddress(const base::IpPort& address) noexcept;

  [[nodiscard]] const sockaddr* get() const noexcept { return &address_.any; }
  [[nodiscard]] socklen_t size() const noexcept;
  [[nodiscard]] int family() const noexcept { return address_.any.sa_family; }

 private:
  union {
    sockaddr any;
    sockaddr_in v4;
    sockaddr_in6 v6;
  } address_{};
};

/// From an address that a system call has filled in; nothing for other families, and if there is
/// none.
[[nodiscard]] std::optional<base::IpPort> ip_port_of(const sockaddr* address) noexcept;
[[nodiscard]] inline std::optional<base::IpPort> ip_port_of(
    const sockaddr_storage& address) noexcept {
  return ip_port_of(reinterpret_cast<const sockaddr*>(&address));
}
/// The same for the result of getsockname(), getpeername() and similar calls: `ask(address, size)`.
template <class Size = socklen_t, class Ask>
[[nodiscard]] std::optional<base::IpPort> ip_port_from(const Ask& ask) {
  sockaddr_storage address{};
  Size size = sizeof address;
  if (ask(reinterpret_cast<sockaddr*>(&address), &size) != 0) return std::nullopt;
  return ip_port_of(address);
}

}  // namespace starling::io
