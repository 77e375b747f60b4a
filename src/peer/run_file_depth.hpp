// How deep the keys of a run file go, told before the file is parsed.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace starling::peer {

/// Parts of a key: those of a run file have up to three, like [model] blocks.unit.
inline constexpr std::size_t kKeyPartsMax = 16;

/// The line, from 1, of the first key or table header of a TOML text that has more parts than
/// that; nothing if none has, or if the text is no TOML before it. Such a key is a table within a
/// table within a table and so on, and toml++ takes each one apart in a call of its own: with some
/// ten thousand of them it runs out of stack.
[[nodiscard]] std::optional<std::size_t> line_of_deep_key(std::string_view text) noexcept;

}  // namespace starling::peer
