// The names of an enumeration's values in files, in one table for reading and for writing.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string_view>
#include <utility>

namespace starling::base {

template <class Enum, std::size_t N>
using EnumNames = std::array<std::pair<std::string_view, Enum>, N>;

/// "?" for a value that has no name.
template <class Enum, std::size_t N>
[[nodiscard]] constexpr std::string_view name_of(Enum value,
                                                 const EnumNames<Enum, N>& names) noexcept {
  for (const auto& [name, named] : names) {
    if (named == value) return name;
  }
  return "?";
}

template <class Enum, std::size_t N>
[[nodiscard]] constexpr std::optional<Enum> value_of(std::string_view text,
                                                     const EnumNames<Enum, N>& names) noexcept {
  for (const auto& [name, value] : names) {
    if (name == text) return value;
  }
  return std::nullopt;
}

/// The names alone, in the table's order.
template <class Enum, std::size_t N>
[[nodiscard]] constexpr std::array<std::string_view, N> all_names(
    const EnumNames<Enum, N>& names) noexcept {
  std::array<std::string_view, N> all;
  for (std::size_t i = 0; i < N; ++i) all[i] = names[i].first;
  return all;
}

}  // namespace starling::base
