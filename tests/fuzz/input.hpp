// Reads a fuzzer's bytes as values, piece by piece; zeros when there are none left.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>

#include "base/bytes.hpp"

namespace starling::fuzz {

class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size)
      : left_(reinterpret_cast<const std::byte*>(data), size) {}

  [[nodiscard]] bool empty() const noexcept { return left_.empty(); }
  [[nodiscard]] base::ByteView rest() const noexcept { return left_; }
  /// All that is left.
  [[nodiscard]] std::string text() const { return std::string(base::text_of(left_)); }

  /// A number of all its bits.
  template <class Number>
  [[nodiscard]] Number take() {
    static_assert(std::is_arithmetic_v<Number>);
    Number value{};
    const base::ByteView bytes = take_bytes(sizeof value);
    std::memcpy(&value, bytes.data(), bytes.size());
    return value;
  }
  /// From 0 to `most`, of one byte.
  [[nodiscard]] std::size_t at_most(std::size_t most) { return take<std::uint8_t>() % (most + 1); }
  [[nodiscard]] bool flag() { return at_most(1) == 1; }
  /// For choices that would lead away from everything else; never true when no bytes are left.
  [[nodiscard]] bool rarely() { return at_most(31) == 31; }
  /// From 0 to `most`, rarely any.
  [[nodiscard]] std::uint64_t number(std::size_t most) {
    return rarely() ? take<std::uint64_t>() : at_most(most);
  }
  /// One of the values of an enumeration from `first` to `last`.
  template <class Enum>
  [[nodiscard]] Enum one_from(Enum first, Enum last) {
    const auto from = static_cast<std::size_t>(first);
    return static_cast<Enum>(from + at_most(static_cast<std::size_t>(last) - from));
  }
  [[nodiscard]] base::ByteView take_bytes(std::size_t count) {
    const base::ByteView taken = left_.first(count < left_.size() ? count : left_.size());
    left_ = left_.subspan(taken.size());
    return taken;
  }

 private:
  base::ByteView left_;
};

}  // namespace starling::fuzz
