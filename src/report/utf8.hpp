// Makes text that arrives in pieces, cut anywhere, safe to show as it comes.
#pragma once

#include <string>
#include <string_view>

namespace starling::report {

/// Turns bytes into whole UTF-8 characters. Bytes that are not UTF-8 (RFC 3629), and control
/// characters other than tab and line end, which a terminal would obey, come out as U+FFFD: one for
/// each maximal piece that cannot begin a character (base/utf8.hpp).
class Utf8Stream {
 public:
  /// The characters that these bytes complete. The beginning of a further one is kept.
  [[nodiscard]] std::string push(std::string_view bytes);
  /// At the end: U+FFFD if a character has only begun.
  [[nodiscard]] std::string finish();

 private:
  std::string begun_;  ///< at most three bytes
};

}  // namespace starling::report
