// Text that arrives in pieces, cut anywhere, made fit to be shown as it comes.
#pragma once

#include <string>
#include <string_view>

namespace starling::report {

/// Turns bytes into whole UTF-8 characters. What is no UTF-8 (RFC 3629), and control characters
/// other than tab and line end, which a terminal would obey, come out as U+FFFD: one for each
/// maximal piece that no character can begin with (base/utf8.hpp).
class Utf8Stream {
 public:
  /// The characters that are whole with these bytes. The beginning of a further one is kept.
  [[nodiscard]] std::string push(std::string_view bytes);
  /// At the end: U+FFFD if a character has only begun.
  [[nodiscard]] std::string finish();

 private:
  std::string begun_;  ///< at most three bytes
};

}  // namespace starling::report
