#include "base/utf8.hpp"

#include <cstdint>

namespace starling::base {
namespace {

/// The range of a character's second byte (Unicode 15, table 3-7), and the number of its bytes; 0:
/// no character begins with this byte.
struct Lead {
  std::size_t size;
  std::uint8_t second_min;
  std::uint8_t second_max;
};

Lead lead_of(std::uint8_t first) noexcept {
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

}  // namespace

Utf8Piece next_utf8(std::string_view text) noexcept {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(text[i]); };
  const Lead lead = lead_of(byte(0));
  if (lead.size == 0) return {Utf8Piece::Kind::wrong, 1};
  for (std::size_t i = 1; i < lead.size; ++i) {
    if (i == text.size()) return {Utf8Piece::Kind::begun, i};
    const std::uint8_t min = i == 1 ? lead.second_min : 0x80;
    const std::uint8_t max = i == 1 ? lead.second_max : 0xBF;
    if (byte(i) < min || byte(i) > max) return {Utf8Piece::Kind::wrong, i};
  }
  return {Utf8Piece::Kind::whole, lead.size};
}

bool is_utf8(std::string_view text) noexcept {
  while (!text.empty()) {
    const Utf8Piece piece = next_utf8(text);
    if (piece.kind != Utf8Piece::Kind::whole) return false;
    text.remove_prefix(piece.size);
  }
  return true;
}

}  // namespace starling::base
