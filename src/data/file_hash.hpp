// What a file's content is called, without reading large files at every start.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "base/bytes.hpp"
#include "base/file.hpp"
#include "base/hash.hpp"
#include "base/result.hpp"
#include "data/cache.hpp"

namespace starling::data {

/// Files from this size on are remembered.
inline constexpr std::size_t kRememberedBytes = std::size_t{1} << 20;

/// Tells whether a file's content is sound. What asks for less than another check of the same file
/// has another name, of one word.
struct ContentCheck {
  std::string_view name;
  std::function<base::Status()> run;
};

/// XXH3-128 of `content`, all of the file that was `path` when it was opened; `opened` is its stamp
/// of that time. `check` is asked first whether the content is sound: its error is handed on. With
/// a folder in `cache`, both are done once for each large file: the result is found again for as
/// long as path, size, inode, time of the last change and the check's name are the same. A cache
/// that cannot be written is no error.
[[nodiscard]] base::Result<base::Hash128> file_hash(const std::string& path,
                                                    const base::FileStamp& opened,
                                                    base::ByteView content, const Cache& cache,
                                                    const ContentCheck& check);

}  // namespace starling::data
