// The files that a list of paths means.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace starling::data {

/// The King James text of Debian's bible-kjv-text, a verse a line: tools/setup puts it there.
inline constexpr const char* kBibleFile = "/usr/local/share/starling/bible-kjv.txt";

inline constexpr std::uint64_t kTextBytesMax = std::uint64_t{1} << 42;  ///< of one file

/// Each path in order; for a folder all files in it and below, in order of their paths, but none
/// whose name, or folder's name, begins with a dot. `suffix`: only names that end so.
/// `check_folder` is asked about the files of each folder that is given: its error is handed on. At
/// least one file and at most kPathsMax; otherwise an error, ErrorCode::data.
[[nodiscard]] base::Result<std::vector<std::string>> list_files(
    std::span<const std::string> paths, std::string_view suffix = "",
    const std::function<base::Status(std::span<const std::string>)>& check_folder = {});

}  // namespace starling::data
