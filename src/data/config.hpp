// What a run file says of its data.
#pragma once

#include <string>

namespace starling::data {

enum class Split { iid, dirichlet };

struct Config {
  /// Name of a data set ("fashion-mnist", "mnist": IDX files in `path`).
  std::string source = "fashion-mnist";
  /// Folder of its files; empty: where Debian's package puts them.
  std::string path;
  Split split = Split::iid;
  double alpha = 1.0;  ///< dirichlet: concentration; smaller is more skewed

  friend bool operator==(const Config&, const Config&) = default;
};

}  // namespace starling::data
