// The page that a peer shows in a browser: static files, built into the program. Its script asks
// for /status, /members, /links and /history.
#pragma once

#include <optional>
#include <string_view>

namespace starling::report {

struct PageFile {
  std::string_view type;  ///< media type
  std::string_view content;
};

/// "/" is the page itself; nothing for a path that is not one of its files.
[[nodiscard]] std::optional<PageFile> page_file(std::string_view path) noexcept;

}  // namespace starling::report
