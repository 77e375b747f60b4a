#include "io/raw_address.hpp"

#include <cstring>

namespace starling::io {

RawAddress::RawAddress(const base::IpPort& address) noexcept {
  const auto bytes = address.ip.bytes();
  if (address.ip.is_v4()) {
    address_.v4.sin_family = AF_INET;
    address_.v4.sin_port = htons(address.port);
    std::memcpy(&address_.v4.sin_addr, bytes.data(), sizeof address_.v4.sin_addr);
    return;
  }
  address_.v6 = {};
  address_.v6.sin6_family = AF_INET6;
  address_.v6.sin6_port = htons(address.port);
  address_.v6.sin6_scope_id = address.ip.interface();
  std::memcpy(&address_.v6.sin6_addr, bytes.data(), sizeof address_.v6.sin6_addr);
}

socklen_t RawAddress::size() const noexcept {
  return family() == AF_INET ? sizeof address_.v4 : sizeof address_.v6;
}

std::optional<base::IpPort> ip_port_of(const sockaddr* address) noexcept {
  if (address == nullptr) return std::nullopt;
  if (address->sa_family == AF_INET) {
    const auto& v4 = *reinterpret_cast<const sockaddr_in*>(address);
    return base::IpPort{base::Ip::v4(ntohl(v4.sin_addr.s_addr)), ntohs(v4.sin_port)};
  }
  if (address->sa_family != AF_INET6) return std::nullopt;
  const auto& v6 = *reinterpret_cast<const sockaddr_in6*>(address);
  return base::IpPort{base::Ip::of_bytes(v6.sin6_addr.s6_addr)->on_interface(v6.sin6_scope_id),
                      ntohs(v6.sin6_port)};
}

}  // namespace starling::io
