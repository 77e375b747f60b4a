#include "io/ucx/ip.hpp"

#include <algorithm>
#include <cstring>

#include <arpa/inet.h>

namespace starling::io::ucx {

std::optional<Ip> Ip::from(const sockaddr* address) noexcept {
  Ip ip;
  if (address->sa_family == AF_INET) {
    sockaddr_in v4;
    std::memcpy(&v4, address, sizeof v4);
    std::memcpy(ip.bytes_.data(), &v4.sin_addr, sizeof v4.sin_addr);
    return ip;
  }
  if (address->sa_family != AF_INET6) return std::nullopt;
  sockaddr_in6 v6;
  std::memcpy(&v6, address, sizeof v6);
  if (IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr)) {
    std::memcpy(ip.bytes_.data(), &v6.sin6_addr.s6_addr[12], 4);
  } else {
    ip.v6_ = true;
    std::memcpy(ip.bytes_.data(), &v6.sin6_addr, sizeof v6.sin6_addr);
  }
  return ip;
}

std::optional<Ip> Ip::parse(std::string_view text) {
  const std::string copy(text);
  sockaddr_storage address{};
  if (auto* v4 = reinterpret_cast<sockaddr_in*>(&address);
      inet_pton(AF_INET, copy.c_str(), &v4->sin_addr) == 1) {
    address.ss_family = AF_INET;
    return from(address);
  }
  if (auto* v6 = reinterpret_cast<sockaddr_in6*>(&address);
      inet_pton(AF_INET6, copy.c_str(), &v6->sin6_addr) == 1) {
    address.ss_family = AF_INET6;
    return from(address);
  }
  return std::nullopt;
}

bool Ip::is_loopback() const noexcept {
  if (!v6_) return bytes_[0] == 127;
  return std::ranges::all_of(bytes_.begin(), bytes_.end() - 1,
                             [](std::uint8_t byte) { return byte == 0; }) &&
         bytes_.back() == 1;
}

bool Ip::is_private() const noexcept {
  if (v6_) return (bytes_[0] & 0xfe) == 0xfc;
  return bytes_[0] == 10 || (bytes_[0] == 172 && (bytes_[1] & 0xf0) == 16) ||
         (bytes_[0] == 192 && bytes_[1] == 168);
}

bool Ip::shares_prefix(const Ip& other, unsigned bits) const noexcept {
  if (v6_ != other.v6_ || bits > (v6_ ? 128U : 32U)) return false;
  const unsigned whole = bits / 8;
  if (!std::equal(bytes_.begin(), bytes_.begin() + whole, other.bytes_.begin())) return false;
  if (bits % 8 == 0) return true;
  const auto mask = static_cast<std::uint8_t>(0xff << (8 - bits % 8));
  return ((bytes_[whole] ^ other.bytes_[whole]) & mask) == 0;
}

socklen_t Ip::to_socket(std::uint16_t port, sockaddr_storage& address) const noexcept {
  address = {};
  if (v6_) {
    sockaddr_in6 v6{};
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(port);
    std::memcpy(&v6.sin6_addr, bytes_.data(), sizeof v6.sin6_addr);
    std::memcpy(&address, &v6, sizeof v6);
    return sizeof v6;
  }
  sockaddr_in v4{};
  v4.sin_family = AF_INET;
  v4.sin_port = htons(port);
  std::memcpy(&v4.sin_addr, bytes_.data(), sizeof v4.sin_addr);
  std::memcpy(&address, &v4, sizeof v4);
  return sizeof v4;
}

std::string Ip::text() const {
  std::array<char, INET6_ADDRSTRLEN> text{};
  inet_ntop(v6_ ? AF_INET6 : AF_INET, bytes_.data(), text.data(), text.size());
  return text.data();
}

std::uint16_t port_of(const sockaddr_storage& address) noexcept {
  // The port lies at the same place in both families.
  static_assert(offsetof(sockaddr_in, sin_port) == offsetof(sockaddr_in6, sin6_port));
  if (address.ss_family != AF_INET && address.ss_family != AF_INET6) return 0;
  sockaddr_in head;
  std::memcpy(&head, &address, sizeof head);
  return ntohs(head.sin_port);
}

}  // namespace starling::io::ucx
