#include "reach/network.hpp"

#include <array>
#include <charconv>
#include <cstddef>
#include <vector>

#include <fmt/format.h>

namespace starling::reach {
namespace {

std::optional<std::uint32_t> number(std::string_view text, int base, std::uint32_t most) {
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc{} || end != text.data() + text.size() || value > most) return std::nullopt;
  return value;
}

std::vector<std::string_view> split(std::string_view text, char at) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t end = text.find(at);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

using V4 = std::array<std::uint8_t, 4>;
using V6 = std::array<std::uint16_t, 8>;

std::optional<V4> v4(std::string_view host) {
  const auto parts = split(host, '.');
  if (parts.size() != 4) return std::nullopt;
  V4 bytes{};
  for (std::size_t i = 0; i < 4; ++i) {
    const auto value = number(parts[i], 10, 255);
    if (!value) return std::nullopt;
    bytes[i] = static_cast<std::uint8_t>(*value);
  }
  return bytes;
}

/// Groups of one side of "::"; IPv4 at the end is two of them.
std::optional<std::vector<std::uint16_t>> groups(std::string_view text) {
  std::vector<std::uint16_t> all;
  if (text.empty()) return all;
  for (const std::string_view part : split(text, ':')) {
    if (const auto in = v4(part)) {
      all.push_back(static_cast<std::uint16_t>((*in)[0] << 8 | (*in)[1]));
      all.push_back(static_cast<std::uint16_t>((*in)[2] << 8 | (*in)[3]));
      continue;
    }
    const auto value = number(part, 16, 0xffff);
    if (!value) return std::nullopt;
    all.push_back(static_cast<std::uint16_t>(*value));
  }
  return all;
}

std::optional<V6> v6(std::string_view host) {
  host = host.substr(0, host.find('%'));
  const std::size_t gap = host.find("::");
  const bool has_gap = gap != std::string_view::npos;
  const auto front = groups(has_gap ? host.substr(0, gap) : host);
  const auto back = groups(has_gap ? host.substr(gap + 2) : std::string_view());
  if (!front || !back) return std::nullopt;
  const std::size_t told = front->size() + back->size();
  if (has_gap ? told > 7 : told != 8) return std::nullopt;
  V6 all{};
  std::size_t at = 0;
  for (const std::uint16_t group : *front) all[at++] = group;
  at = 8 - back->size();
  for (const std::uint16_t group : *back) all[at++] = group;
  return all;
}

/// The IPv4 address that an IPv6 one stands for.
std::optional<V4> mapped(const V6& a) {
  for (std::size_t i = 0; i < 5; ++i) {
    if (a[i] != 0) return std::nullopt;
  }
  if (a[5] != 0xffff) return std::nullopt;
  const auto byte = [](int value) { return static_cast<std::uint8_t>(value); };
  return V4{byte(a[6] >> 8), byte(a[6] & 255), byte(a[7] >> 8), byte(a[7] & 255)};
}

}  // namespace

std::optional<HostPort> host_port(std::string_view address) {
  const std::size_t colon = address.rfind(':');
  if (colon == std::string_view::npos) return std::nullopt;
  const auto port = number(address.substr(colon + 1), 10, 65535);
  std::string_view host = address.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  if (host.empty() || !port || *port == 0) return std::nullopt;
  return HostPort{std::string(host), static_cast<std::uint16_t>(*port)};
}

std::string to_address(std::string_view host, std::uint16_t port) {
  if (host.find(':') == std::string_view::npos) return fmt::format("{}:{}", host, port);
  return fmt::format("[{}]:{}", host, port);
}

std::string network_of(std::string_view address) {
  const auto parts = host_port(address);
  if (!parts) return {};
  auto four = v4(parts->host);
  const auto six = v6(parts->host);
  if (!four && six) four = mapped(*six);
  if (four) return fmt::format("{}.{}", (*four)[0], (*four)[1]);
  if (six) return fmt::format("{:x}:{:x}", (*six)[0], (*six)[1]);
  return parts->host;
}

}  // namespace starling::reach
