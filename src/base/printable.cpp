#include "base/printable.hpp"

#include <algorithm>

namespace starling::base {

std::string printable(std::string_view text, std::size_t length_max) {
  constexpr std::string_view kCut = "...";
  std::string shown(text.substr(0, length_max));
  // Plain char may be signed: bytes above 127 are below ' ' then.
  std::ranges::replace_if(
      shown, [](char c) { return c < ' ' || c > '~'; }, '?');
  if (text.size() > length_max) {
    const std::size_t end = std::min(length_max, kCut.size());
    shown.replace(length_max - end, end, kCut.substr(0, end));
  }
  return shown;
}

}  // namespace starling::base
