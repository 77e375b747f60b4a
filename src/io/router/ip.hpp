// An IP address of either family as the Port Control Protocol has it: 16 bytes, IPv4 as
// ::ffff:a.b.c.d.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace starling::io::router {

struct Ip {
  std::array<std::uint8_t, 16> bytes{};

  [[nodiscard]] static Ip v4(std::array<std::uint8_t, 4> bytes) noexcept;
  /// Nothing where it is none of both; no zone, no brackets.
  [[nodiscard]] static std::optional<Ip> parse(std::string_view text);

  [[nodiscard]] bool is_v4() const noexcept;
  /// 0.0.0.0 or ::.
  [[nodiscard]] bool is_unspecified() const noexcept;
  [[nodiscard]] std::string text() const;

  friend bool operator==(const Ip&, const Ip&) = default;
};

/// "a.b.c.d:port" or "[v6]:port".
[[nodiscard]] std::string with_port(const Ip& ip, std::uint16_t port);

}  // namespace starling::io::router
