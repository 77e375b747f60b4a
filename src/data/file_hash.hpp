// The hash of a file's content, without reading large files at every start.
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

/// Checks whether a file's content is sound. A weaker check of the same file has a different name,
/// of one word.
struct ContentCheck {
  std::string_view name;
  std::function<base::Status()> run;
};

/// XXH3-128 of `content`, all of the file that was `path` when it was opened; `opened` is its stamp
/// of that time. `check` runs first, and its error is passed on. With a folder in `cache`, both are
/// done once for each large file: the result is remembered as long as path, size, inode, time of
/// the last change and the check's name stay the same. A cache that cannot be written is not an
/// error.
[[nodiscard]] base::Result<base::Hash128> file_hash(const std::string& path,
                                                    const base::FileStamp& opened,
                                                    base::ByteView content, const Cache& cache,
                                                    const ContentCheck& check);

}  // namespace starling::data
