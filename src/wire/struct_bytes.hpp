// Numbers and structs of numbers, laid out as in FlatBuffers' vectors: little-endian, each number
// at a multiple of its size, a struct at a multiple of kStructAlignment.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>

#include "base/strong.hpp"
#include "wire/fields.hpp"

namespace starling::wire {

static_assert(std::endian::native == std::endian::little);

template <class T>
inline constexpr bool kIsCounter = false;
template <class Tag>
inline constexpr bool kIsCounter<base::Counter<Tag>> = true;

/// A number, a flag, an enumerator or a counter.
template <class T>
concept IsNumber = std::is_arithmetic_v<T> || std::is_enum_v<T> || kIsCounter<T>;

/// Our structs all have a number of 64 bits.
inline constexpr std::size_t kStructAlignment = 8;

template <IsNumber Number>
std::uint64_t bits_of(const Number& value) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  return bits;
}

/// The number at `bytes`, at any address.
template <IsNumber Number>
Number number_at(const std::uint8_t* bytes) {
  if constexpr (std::is_same_v<Number, bool>) {
    return *bytes != 0;
  } else {
    Number value;
    std::memcpy(&value, bytes, sizeof value);
    return value;
  }
}

inline void pad(std::vector<std::uint8_t>& bytes, std::size_t alignment) {
  bytes.resize((bytes.size() + alignment - 1) / alignment * alignment);
}

template <class Struct>
void put_struct(std::vector<std::uint8_t>& bytes, const Struct& from) {
  fields(from, [&](const char*, const IsNumber auto& value, const auto&) {
    pad(bytes, sizeof value);
    const auto* begin = reinterpret_cast<const std::uint8_t*>(&value);
    bytes.insert(bytes.end(), begin, begin + sizeof value);
  });
  pad(bytes, kStructAlignment);
}

template <class Struct>
Struct struct_at(const std::uint8_t* bytes) {
  Struct to;
  std::size_t at = 0;
  fields(to, [&]<IsNumber Number>(const char*, Number& value, const auto&) {
    at = (at + sizeof value - 1) / sizeof value * sizeof value;
    value = number_at<Number>(bytes + at);
    at += sizeof value;
  });
  return to;
}

/// Bytes of a struct.
template <class Struct>
inline const std::size_t kSizeOf = [] {
  std::vector<std::uint8_t> bytes;
  put_struct(bytes, Struct{});
  return bytes.size();
}();

}  // namespace starling::wire
