// The reference of run files: every key for people to look up.
#pragma once

#include <string>

namespace starling::runfile {

/// All keys by section as Markdown, a table each: key, meaning, what is allowed, default. The last
/// table has the keys of layers. All of it comes from keys.hpp and the values that a run
/// file has when it says nothing.
[[nodiscard]] std::string reference();

}  // namespace starling::runfile
