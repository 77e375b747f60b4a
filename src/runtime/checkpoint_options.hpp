// Which trained weights are meant.
#pragma once

#include <string>
#include <vector>

namespace starling::runtime {

/// How a person names trained weights.
struct CheckpointOptions {
  /// The folder of a checkpoint, the folder of a peer (its newest usable checkpoint), or a
  /// safetensors file.
  std::string path;
  std::string run_file;          ///< in place of the run.toml beside it; a file needs it
  std::vector<std::string> set;  ///< "section.key=value"
};

}  // namespace starling::runtime
