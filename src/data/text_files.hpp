// The files that a list of paths names.
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

/// Each path in order; for a folder, all files in it and below, in order of their paths, except
/// those whose name, or folder's name, begins with a dot. `suffix`: only names that end with it.
/// `check_folder` is called with the files of each given folder, and its error is passed on. Error
/// (ErrorCode::data): no file, or more than kPathsMax.
[[nodiscard]] base::Result<std::vector<std::string>> list_files(
    std::span<const std::string> paths, std::string_view suffix = "",
    const std::function<base::Status(std::span<const std::string>)>& check_folder = {});

}  // namespace starling::data
