// UTF-8 (RFC 3629), told from bytes that are something else.
#pragma once

#include <cstddef>
#include <string_view>

namespace starling::base {

/// What a text begins with.
struct Utf8Piece {
  enum class Kind {
    whole,  ///< a character
    wrong,  ///< what no character can begin with: a maximal piece of it (Unicode 15, section 3.9)
    begun,  ///< a character that the text ends within
  } kind;
  std::size_t size;  ///< bytes
};

/// `text` is not empty.
[[nodiscard]] Utf8Piece next_utf8(std::string_view text) noexcept;

/// Whether a text consists of whole characters; an empty one does.
[[nodiscard]] bool is_utf8(std::string_view text) noexcept;

}  // namespace starling::base
