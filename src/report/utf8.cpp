#include "report/utf8.hpp"

#include <cstddef>
#include <cstdint>
#include <utility>

namespace starling::report {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

/// What the next bytes are.
struct Piece {
  enum class Kind { whole, wrong, begun } kind;
  std::size_t size;  ///< bytes; of `wrong`, those that U+FFFD stands for
};

/// The range that the second byte of a character must be in (Unicode 15, table 3-7), and how many
/// bytes the character has; 0: it cannot begin with this byte.
struct Lead {
  std::size_t size;
  std::uint8_t second_min;
  std::uint8_t second_max;
};

Lead lead_of(std::uint8_t first) {
  if (first < 0x80) return {1, 0, 0};
  if (first < 0xC2) return {0, 0, 0};
  if (first < 0xE0) return {2, 0x80, 0xBF};
  if (first == 0xE0) return {3, 0xA0, 0xBF};
  if (first == 0xED) return {3, 0x80, 0x9F};
  if (first < 0xF0) return {3, 0x80, 0xBF};
  if (first == 0xF0) return {4, 0x90, 0xBF};
  if (first < 0xF4) return {4, 0x80, 0xBF};
  if (first == 0xF4) return {4, 0x80, 0x8F};
  return {0, 0, 0};
}

/// `text` is not empty.
Piece next_piece(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(text[i]); };
  const Lead lead = lead_of(byte(0));
  if (lead.size == 0) return {Piece::Kind::wrong, 1};
  for (std::size_t i = 1; i < lead.size; ++i) {
    if (i == text.size()) return {Piece::Kind::begun, i};
    const std::uint8_t min = i == 1 ? lead.second_min : 0x80;
    const std::uint8_t max = i == 1 ? lead.second_max : 0xBF;
    if (byte(i) < min || byte(i) > max) return {Piece::Kind::wrong, i};
  }
  return {Piece::Kind::whole, lead.size};
}

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
    const Piece piece = next_piece(rest);
    const std::string_view character = rest.substr(0, piece.size);
    rest.remove_prefix(piece.size);
    if (piece.kind == Piece::Kind::begun) {
      begun_ = character;
    } else if (piece.kind == Piece::Kind::wrong || is_control(character)) {
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
