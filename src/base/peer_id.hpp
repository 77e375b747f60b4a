// A peer's identity: the SHA-256 of its public key.
#pragma once

#include <array>
#include <bit>
#include <compare>
#include <cstdint>
#include <cstring>
#include <string>

namespace starling::base {

struct PeerId {
  std::array<std::uint8_t, 32> bytes{};

  friend bool operator==(const PeerId&, const PeerId&) = default;
  /// In the order of the bytes.
  friend std::strong_ordering operator<=>(const PeerId& a, const PeerId& b) noexcept {
    const std::uint64_t left = a.prefix();  // nearly always enough, and saves a call
    const std::uint64_t right = b.prefix();
    return left != right ? left <=> right : a.bytes <=> b.bytes;
  }

  /// All 64 hexadecimal digits.
  [[nodiscard]] std::string hex() const;
  /// The first 8 digits, for people.
  [[nodiscard]] std::string brief() const;
  /// The first 8 bytes as a number: the compact key of progress counters and hashing.
  [[nodiscard]] std::uint64_t prefix() const noexcept {
    std::uint64_t value = 0;
    std::memcpy(&value, bytes.data(), sizeof value);
    return std::endian::native == std::endian::big ? value : __builtin_bswap64(value);
  }
};

}  // namespace starling::base
