#include "report/utf8.hpp"

#include <cstdint>
#include <utility>

#include "base/utf8.hpp"

namespace starling::report {
namespace {

using base::Utf8Piece;

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

/// C0, DEL and C1 (U+0080 to U+009F).
bool is_control(std::string_view character) {
  const auto first = static_cast<std::uint8_t>(character[0]);
  if (character.size() == 1) {
    return (first < 0x20 && first != '\n' && first != '\t') || first == 0x7F;
  }
  return first == 0xC2 && static_cast<std::uint8_t>(character[1]) < 0xA0;
}

}  // namespace

std::string Utf8Stream::push(std::string_view bytes) {
  const std::string all = std::exchange(begun_, {}).append(bytes);
  std::string out;
  for (std::string_view rest = all; !rest.empty();) {
    const Utf8Piece piece = base::next_utf8(rest);
    const std::string_view character = rest.substr(0, piece.size);
    rest.remove_prefix(piece.size);
    if (piece.kind == Utf8Piece::Kind::begun) {
      begun_ = character;
    } else if (piece.kind == Utf8Piece::Kind::wrong || is_control(character)) {
      out += kReplacement;
    } else {
      out += character;
    }
  }
  return out;
}

std::string Utf8Stream::finish() {
  return std::exchange(begun_, {}).empty() ? std::string() : std::string(kReplacement);
}

}  // namespace starling::report
