// Whether the keys of a run file fit together, which no single key can tell.
#pragma once

#include <optional>
#include <string>

#include "runfile/run_file.hpp"

namespace starling::runfile {

/// An error, at the key that should be changed.
struct Wrong {
  const char* section;
  const char* key;
  std::string text;  ///< goes on after the key's name: "is missing: ..."
};

/// The first thing that is wrong with values that are each in their range; nothing if they fit.
[[nodiscard]] std::optional<Wrong> wrong_together(const RunFile& f);

}  // namespace starling::runfile
