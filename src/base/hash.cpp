#include "base/hash.hpp"

#include <xxhash.h>

namespace starling::base {
namespace {

Hash128 canonical(XXH128_hash_t hash) noexcept {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, hash);
  Hash128 result;
  for (std::size_t i = 0; i < result.bytes.size(); ++i) result.bytes[i] = canonical.digest[i];
  return result;
}

/// The value of a hexadecimal digit of either case; -1 for anything else.
int hex_digit(char c) noexcept {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

std::string to_hex(std::span<const std::uint8_t> bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  text.reserve(bytes.size() * 2);
  for (const std::uint8_t byte : bytes) {
    text.push_back(kDigits[byte >> 4]);
    text.push_back(kDigits[byte & 15]);
  }
  return text;
}

bool from_hex(std::string_view hex, std::span<std::uint8_t> out) noexcept {
  if (hex.size() != 2 * out.size()) return false;
  for (std::size_t i = 0; i < out.size(); ++i) {
    const int high = hex_digit(hex[2 * i]);
    const int low = hex_digit(hex[2 * i + 1]);
    if (high < 0 || low < 0) return false;
    out[i] = static_cast<std::uint8_t>(high << 4 | low);
  }
  return true;
}

std::string Hash128::hex() const { return to_hex(bytes); }

std::optional<Hash128> Hash128::parse(std::string_view hex) noexcept {
  Hash128 hash;
  return from_hex(hex, hash.bytes) ? std::optional(hash) : std::nullopt;
}

std::uint64_t xxh3(ByteView bytes, std::uint64_t seed) noexcept {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

std::uint64_t xxh3(std::string_view text, std::uint64_t seed) noexcept {
  return XXH3_64bits_withSeed(text.data(), text.size(), seed);
}

Hash128 xxh3_128(ByteView bytes) noexcept {
  return canonical(XXH3_128bits(bytes.data(), bytes.size()));
}

Hash128 xxh3_128(std::string_view text) noexcept {
  return canonical(XXH3_128bits(text.data(), text.size()));
}

}  // namespace starling::base
