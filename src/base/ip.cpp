#include "base/ip.hpp"

#include <algorithm>

#include <arpa/inet.h>
#include <fmt/core.h>
#include <net/if.h>

#include "base/endian.hpp"
#include "base/parse_number.hpp"

namespace starling::base {
namespace {

constexpr std::array<std::uint8_t, 12> kMapped{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

}  // namespace

Ip Ip::any_v6() noexcept {
  Ip ip;
  ip.v6_ = true;
  return ip;
}

Ip Ip::v4(std::uint32_t number) noexcept {
  Ip ip;
  for (std::size_t i = 4; i-- > 0; number >>= 8) ip.bytes_[i] = number & 0xff;
  return ip;
}

std::optional<Ip> Ip::of_bytes(std::span<const std::uint8_t> bytes) noexcept {
  if (bytes.size() != 4 && bytes.size() != 16) return std::nullopt;
  Ip ip;
  ip.v6_ = bytes.size() == 16 && !std::ranges::equal(bytes.first(12), kMapped);
  std::ranges::copy(ip.v6_ ? bytes : bytes.last(4), ip.bytes_.begin());
  return ip;
}

std::optional<Ip> Ip::parse(std::string_view text) noexcept {
  std::array<char, INET6_ADDRSTRLEN> terminated{};
  if (text.size() >= terminated.size() || text.find('\0') != std::string_view::npos)
    return std::nullopt;
  std::ranges::copy(text, terminated.begin());
  Bytes16 bytes{};
  if (inet_pton(AF_INET, terminated.data(), bytes.data()) == 1) {
    return of_bytes(std::span(bytes).first(4));
  }
  if (inet_pton(AF_INET6, terminated.data(), bytes.data()) == 1) return of_bytes(bytes);
  return std::nullopt;
}

Ip Ip::on_interface(std::uint32_t number) const noexcept {
  Ip ip = *this;
  ip.interface_ = v6_ && is_link_local() ? number : 0;
  return ip;
}

Ip::Bytes16 Ip::mapped() const noexcept {
  if (v6_) return bytes_;
  Bytes16 all{};
  std::ranges::copy(bytes(), std::ranges::copy(kMapped, all.begin()).out);
  return all;
}

std::uint32_t Ip::number() const noexcept {
  return load_big<std::uint32_t>(std::as_bytes(bytes()));
}

bool Ip::is_any() const noexcept {
  return std::ranges::all_of(bytes_, [](std::uint8_t byte) { return byte == 0; });
}

bool Ip::is_loopback() const noexcept {
  if (!v6_) return bytes_[0] == 127;
  return bytes_.back() == 1 &&
         std::all_of(bytes_.begin(), bytes_.end() - 1, [](std::uint8_t byte) { return byte == 0; });
}

bool Ip::is_link_local() const noexcept {
  return number() >> (v6_ ? 22 : 16) == (v6_ ? 0x3fa : 0xa9fe);
}

bool Ip::is_private() const noexcept {
  if (v6_) return (bytes_[0] & 0xfe) == 0xfc;
  return number() >> 24 == 10 || number() >> 20 == 0xac1 || number() >> 16 == 0xc0a8;
}

bool Ip::is_shared() const noexcept { return !v6_ && number() >> 22 == 0x191; }

bool Ip::is_global() const noexcept {
  if (v6_) return (bytes_[0] & 0xe0) == 0x20;  // 2000::/3: all assigned addresses
  if (is_loopback() || is_link_local() || is_private() || is_shared()) return false;
  return bytes_[0] != 0 && bytes_[0] < 224;
}

bool Ip::shares_prefix(const Ip& other, unsigned bits) const noexcept {
  if (v6_ != other.v6_ || bits > 8 * bytes().size()) return false;
  const unsigned whole = bits / 8;
  if (!std::equal(bytes_.begin(), bytes_.begin() + whole, other.bytes_.begin())) return false;
  return bits % 8 == 0 || (bytes_[whole] ^ other.bytes_[whole]) >> (8 - bits % 8) == 0;
}

std::string Ip::text() const {
  std::array<char, INET6_ADDRSTRLEN> text{};
  inet_ntop(v6_ ? AF_INET6 : AF_INET, bytes_.data(), text.data(), text.size());
  if (interface_ == 0) return text.data();
  std::array<char, IF_NAMESIZE> name{};
  const bool named = if_indextoname(interface_, name.data()) != nullptr;
  return fmt::format("{}%{}", text.data(), named ? name.data() : std::to_string(interface_));
}

std::optional<AddressParts> split_address(std::string_view text) noexcept {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return std::nullopt;
  const auto port = parse_number<std::uint16_t>(text.substr(colon + 1));
  if (!port) return std::nullopt;
  std::string_view host = text.substr(0, colon);
  const bool brackets = host.starts_with('[') && host.ends_with(']');
  if (brackets) host = host.substr(1, host.size() - 2);
  return AddressParts{host, *port, brackets};
}

std::string to_address(std::string_view host, std::uint16_t port) {
  const bool v6 = host.find(':') != std::string_view::npos;
  return fmt::format(fmt::runtime(v6 ? "[{}]:{}" : "{}:{}"), host, port);
}

std::string to_string(const IpPort& address) { return to_address(address.ip.text(), address.port); }

std::optional<IpPort> parse_ip_port(std::string_view text) noexcept {
  const auto parts = split_address(text);
  const auto ip = parts ? Ip::parse(parts->host) : std::nullopt;
  if (!ip || ip->is_v6() != parts->brackets) return std::nullopt;
  return IpPort{*ip, parts->port};
}

}  // namespace starling::base
