// Numbers among bytes, at any address: least byte first, as this program writes them, and highest
// byte first, as others do. A place outside the bytes is a bug.
#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstring>
#include <ranges>
#include <span>
#include <type_traits>

#include "base/assert.hpp"
#include "base/bytes.hpp"

namespace starling::base {

static_assert(std::endian::native == std::endian::little, "what is written is little-endian");

/// A number, an array of numbers or of plain bytes, or a structure without gaps.
template <class Value>
concept Numbers =
    std::is_trivially_copyable_v<Value> && !std::is_pointer_v<Value> && !std::ranges::view<Value>;

template <Numbers Value>
[[nodiscard]] Value load_little(ByteView bytes, std::size_t at = 0) {
  ASSERT(at <= bytes.size() && sizeof(Value) <= bytes.size() - at);
  Value value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

template <Numbers Value>
void store_little(std::span<std::byte> bytes, std::size_t at, const Value& value) {
  ASSERT(at <= bytes.size() && sizeof value <= bytes.size() - at);
  std::memcpy(bytes.data() + at, &value, sizeof value);
}

template <Numbers Value>
void append_little(Bytes& bytes, const Value& value) {
  bytes.resize(bytes.size() + sizeof value);
  store_little(bytes, bytes.size() - sizeof value, value);
}

template <std::unsigned_integral Number>
[[nodiscard]] Number load_big(ByteView bytes, std::size_t at = 0) {
  ASSERT(at <= bytes.size() && sizeof(Number) <= bytes.size() - at);
  Number number = 0;
  for (const std::byte byte : bytes.subspan(at, sizeof number)) {
    number = static_cast<Number>(number << 8 | std::to_integer<Number>(byte));
  }
  return number;
}

template <std::unsigned_integral Number>
void append_big(Bytes& bytes, Number number) {
  for (std::size_t i = sizeof number; i-- > 0;) {
    bytes.push_back(static_cast<std::byte>(number >> (8 * i) & 0xffU));
  }
}

}  // namespace starling::base
