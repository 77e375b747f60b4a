#include "io/router/ip.hpp"

#include <algorithm>

#include <arpa/inet.h>
#include <fmt/format.h>

namespace starling::io::router {
namespace {

constexpr std::array<std::uint8_t, 12> kV4Prefix{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
constexpr std::size_t kV4At = kV4Prefix.size();

}  // namespace

Ip Ip::v4(std::array<std::uint8_t, 4> bytes) noexcept {
  Ip made;
  std::ranges::copy(kV4Prefix, made.bytes.begin());
  std::ranges::copy(bytes, made.bytes.begin() + kV4At);
  return made;
}

std::optional<Ip> Ip::parse(std::string_view text) {
  const std::string terminated(text);
  std::array<std::uint8_t, 4> four{};
  if (inet_pton(AF_INET, terminated.c_str(), four.data()) == 1) return v4(four);
  Ip six;
  if (inet_pton(AF_INET6, terminated.c_str(), six.bytes.data()) == 1) return six;
  return std::nullopt;
}

bool Ip::is_v4() const noexcept {
  return std::equal(kV4Prefix.begin(), kV4Prefix.end(), bytes.begin());
}

bool Ip::is_unspecified() const noexcept {
  const auto begin = bytes.begin() + (is_v4() ? kV4At : 0);
  return std::all_of(begin, bytes.end(), [](std::uint8_t byte) { return byte == 0; });
}

std::string Ip::text() const {
  std::array<char, INET6_ADDRSTRLEN> buffer{};
  if (is_v4()) {
    inet_ntop(AF_INET, bytes.data() + kV4At, buffer.data(), buffer.size());
  } else {
    inet_ntop(AF_INET6, bytes.data(), buffer.data(), buffer.size());
  }
  return buffer.data();
}

std::string with_port(const Ip& ip, std::uint16_t port) {
  return ip.is_v4() ? fmt::format("{}:{}", ip.text(), port)
                    : fmt::format("[{}]:{}", ip.text(), port);
}

}  // namespace starling::io::router
