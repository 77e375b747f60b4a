// XXH3 (github.com/Cyan4973/xxHash): checksums of frames and mirrors, run ids, rendezvous hashing.
// Not cryptographic: anything that must withstand an attacker uses TLS and SHA-256.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/bytes.hpp"

namespace starling::base {

/// 128-bit XXH3 in canonical (big-endian) byte order.
struct Hash128 {
  std::array<std::uint8_t, 16> bytes{};

  friend auto operator<=>(const Hash128&, const Hash128&) = default;
  [[nodiscard]] std::string hex() const;
  /// Reads 32 hexadecimal digits; nothing for anything else.
  [[nodiscard]] static std::optional<Hash128> parse(std::string_view hex) noexcept;
};

[[nodiscard]] std::uint64_t xxh3(ByteView bytes, std::uint64_t seed = 0) noexcept;
[[nodiscard]] std::uint64_t xxh3(std::string_view text, std::uint64_t seed = 0) noexcept;
[[nodiscard]] Hash128 xxh3_128(ByteView bytes) noexcept;
[[nodiscard]] Hash128 xxh3_128(std::string_view text) noexcept;

/// Lower-case hexadecimal of any bytes.
[[nodiscard]] std::string to_hex(std::span<const std::uint8_t> bytes);
/// Reads two hexadecimal digits for each byte of `out`; false for anything else.
[[nodiscard]] bool from_hex(std::string_view hex, std::span<std::uint8_t> out) noexcept;

}  // namespace starling::base
