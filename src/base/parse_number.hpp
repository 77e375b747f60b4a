// Numbers in text.
#pragma once

#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>

namespace starling::base {

/// The number in a text that is one number of this type and nothing else. `base`: of a whole
/// number, if not 10.
template <class Number, class... Base>
[[nodiscard]] std::optional<Number> parse_number(std::string_view text, Base... base) {
  Number value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base...);
  const bool whole = error == std::errc{} && end == text.data() + text.size();
  return whole ? std::optional(value) : std::nullopt;
}

}  // namespace starling::base
