// Makes text from others safe to show.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace starling::base {

/// `text` from anybody, for a terminal or a log: everything but printable ASCII, above all control
/// characters, becomes '?', and a text of more than `length_max` bytes is cut to that length, with
/// "..." at its end.
[[nodiscard]] std::string printable(std::string_view text, std::size_t length_max);

/// For a name or a value within a message.
inline constexpr std::size_t kShownMax = 80;

}  // namespace starling::base
