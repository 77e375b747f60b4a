// Shared by the readers of run files and scenarios: a text that is TOML, the kind of a value,
// and a number of any kind. For the .cpp files that read them alone: toml++ is slow to compile.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include <toml++/toml.h>

#include "base/result.hpp"

namespace starling::runfile {

/// Parts of a key: those of a run file have up to three, like [model] blocks.unit.
inline constexpr std::size_t kKeyPartsMax = 16;

/// The line, from 1, of the first key or table header of a TOML text that has more parts than
/// that; nothing if none has, or if the text is no TOML before it. Such a key is a table within a
/// table within a table and so on, and toml++ takes each one apart in a call of its own: with some
/// ten thousand of them it runs out of stack.
[[nodiscard]] std::optional<std::size_t> line_of_deep_key(std::string_view text) noexcept;

/// The tables of a text of at most `bytes_max` bytes; errors call it `name`. Error:
/// ErrorCode::run_file, with the line.
[[nodiscard]] base::Result<toml::table> parse_toml(std::string_view text, std::string_view name,
                                                   std::size_t bytes_max);

/// The kind of a value, with its article: "a string".
[[nodiscard]] const char* type_name(const toml::node& node) noexcept;

/// The value of an integer or a floating-point number; nothing of anything else. value<double>()
/// has none for an integer that lies between two doubles.
[[nodiscard]] std::optional<double> number_of(const toml::node& node) noexcept;

}  // namespace starling::runfile
