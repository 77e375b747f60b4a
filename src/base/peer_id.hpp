// Who a peer is: the SHA-256 of its public key.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace starling::base {

struct PeerId {
  std::array<std::uint8_t, 32> bytes{};

  friend auto operator<=>(const PeerId&, const PeerId&) = default;

  /// All 64 hexadecimal digits.
  [[nodiscard]] std::string hex() const;
  /// The first 8 digits, for people.
  [[nodiscard]] std::string brief() const;
  /// The first 8 bytes as a number: the compact key of progress counters and hashing.
  [[nodiscard]] std::uint64_t prefix() const noexcept;
  /// Reads 64 hexadecimal digits; says what is wrong with anything else.
  [[nodiscard]] static Result<PeerId> parse(std::string_view hex);
};

}  // namespace starling::base
