// Text of others made fit to be shown.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace starling::base {

/// `text` for a terminal or a log, whoever it comes from: what is no printable ASCII (control
/// characters above all) becomes '?', and a text of more than `length_max` bytes is cut to as many,
/// of which "..." are the last.
[[nodiscard]] std::string printable(std::string_view text, std::size_t length_max);

/// Of a name or a value within a message.
inline constexpr std::size_t kShownMax = 80;

}  // namespace starling::base
