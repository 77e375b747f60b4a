// Numbers on a command line.
#pragma once

#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>

namespace starling::peers {

/// What a text says that is one number of this type and nothing else.
template <class Number>
[[nodiscard]] std::optional<Number> parse_number(std::string_view text) {
  Number value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = error == std::errc{} && end == text.data() + text.size();
  return whole ? std::optional(value) : std::nullopt;
}

}  // namespace starling::peers
