// A peer's name and folder.
#pragma once

#include <string>

#include "base/file_lock.hpp"
#include "base/result.hpp"

namespace starling::runtime {

struct Place {
  std::string name;
  std::string dir;
  base::FileLock lock;  ///< of the folder, which has one peer at a time
};

/// Makes and locks the folder of a peer of this run. Without a name and folder, it is the first of
/// runs/<run>/<host>, <host>-2 ... that no peer has: a peer that is started again with the same
/// line finds its own. Errors: the name or folder is invalid, or a peer runs there (usage); the
/// folder cannot be made (data).
[[nodiscard]] base::Result<Place> take_place(const std::string& run, const std::string& wanted_name,
                                             const std::string& wanted_dir);

}  // namespace starling::runtime
