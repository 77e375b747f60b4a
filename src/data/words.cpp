#include "data/words.hpp"

#include <algorithm>
#include <array>

namespace starling::data {
namespace {

enum class Kind { letter, digit, space, other };

constexpr Kind kind_of(char c) noexcept {
  const auto byte = static_cast<unsigned char>(c);
  if (byte >= 0x80 || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) return Kind::letter;
  if (c >= '0' && c <= '9') return Kind::digit;
  return c == ' ' || (c >= '\t' && c <= '\r') ? Kind::space : Kind::other;
}

/// Characters of one kind from `at` on.
std::size_t run_end(std::string_view text, std::size_t at) noexcept {
  const Kind kind = kind_of(text[at]);
  const std::size_t end = std::min(text.size(), at + kWordBytesMax);
  while (at < end && kind_of(text[at]) == kind) ++at;
  return at;
}

constexpr std::array<std::string_view, 7> kEndings{"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"};

std::size_t word_size(std::string_view text) noexcept {
  for (const std::string_view ending : kEndings) {
    if (text.starts_with(ending)) return ending.size();
  }
  const bool spaced = text.size() > 1 && text[0] == ' ' && kind_of(text[1]) != Kind::space;
  if (spaced || kind_of(text[0]) != Kind::space) {
    return std::min(run_end(text, spaced ? 1 : 0), kWordBytesMax);
  }
  const std::size_t end = run_end(text, 0);
  const bool followed = end < text.size() && kind_of(text[end]) != Kind::space;
  return followed && end > 1 ? end - 1 : end;
}

}  // namespace

std::string_view Words::next() noexcept {
  if (rest_.empty()) return rest_;
  const std::string_view word = rest_.substr(0, word_size(rest_));
  rest_.remove_prefix(word.size());
  return word;
}

}  // namespace starling::data
