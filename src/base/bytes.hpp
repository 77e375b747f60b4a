// Byte buffers and views of them.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

namespace starling::base {

using Bytes = std::vector<std::byte>;
using ByteView = std::span<const std::byte>;

/// The bytes of an object or of a contiguous range of trivially copyable elements.
template <class T, std::size_t N>
[[nodiscard]] ByteView bytes_of(std::span<T, N> values) noexcept {
  return std::as_bytes(values);
}

[[nodiscard]] inline ByteView bytes_of(const char* data, std::size_t size) noexcept {
  return {reinterpret_cast<const std::byte*>(data), size};
}

/// The same bytes as characters, in any encoding. Lives as long as the viewed bytes.
[[nodiscard]] inline std::string_view text_of(ByteView bytes) noexcept {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

inline void append(Bytes& to, ByteView bytes) { to.insert(to.end(), bytes.begin(), bytes.end()); }

}  // namespace starling::base
