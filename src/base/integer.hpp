// Whole numbers in pieces.
#pragma once

#include <concepts>
#include <type_traits>

namespace starling::base {

/// How many pieces of `size` it takes to hold `all`.
template <std::unsigned_integral T>
[[nodiscard]] constexpr T ceil_div(T all, std::type_identity_t<T> size) noexcept {
  return all / size + (all % size == 0 ? 0 : 1);
}

/// The first multiple of `step` that is not below `value`.
template <std::unsigned_integral T>
[[nodiscard]] constexpr T round_up(T value, std::type_identity_t<T> step) noexcept {
  return ceil_div(value, step) * step;
}

}  // namespace starling::base
