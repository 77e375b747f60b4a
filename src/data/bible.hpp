// The King James text in Debian's package bible-kjv-text.
#pragma once

#include <string>

#include "base/bytes.hpp"
#include "base/result.hpp"

namespace starling::data {

/// Where the package puts it.
inline constexpr const char* kBibleFile = "/usr/lib/bible.data";

/// The text: a verse a line, 4.1 MB of ASCII, without title and verse numbers. Takes 0.05 s.
/// Errors (ErrorCode::data) say how to get it, or what is wrong with the file.
[[nodiscard]] base::Result<base::Buffer> read_bible(const std::string& path);

}  // namespace starling::data
