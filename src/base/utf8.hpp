// Recognizes UTF-8 (RFC 3629).
#pragma once

#include <cstddef>
#include <string_view>

namespace starling::base {

/// The first piece of a text.
struct Utf8Piece {
  enum class Kind {
    whole,  ///< a character
    wrong,  ///< bytes that cannot begin a character: a maximal piece (Unicode 15, section 3.9)
    begun,  ///< a character whose rest is missing at the end of the text
  } kind;
  std::size_t size;  ///< bytes
};

/// `text` is not empty.
[[nodiscard]] Utf8Piece next_utf8(std::string_view text) noexcept;

/// Whether a text consists of whole characters; an empty one does.
[[nodiscard]] bool is_utf8(std::string_view text) noexcept;

}  // namespace starling::base
