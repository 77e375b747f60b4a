// Trained weights and what they belong to: for the commands that use them without training.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "commands.hpp"
#include "peer/run_file.hpp"
#include "problem.hpp"
#include "train/checkpoint.hpp"
#include "train/weights.hpp"

namespace starling::peers {

/// The tensors, found and read. Hashes of a checkpoint's files have been compared.
struct FoundWeights {
  std::string path;      ///< of the checkpoint's folder, or of the file
  std::string run_file;  ///< path: the given one, or that beside it; empty: none
  std::string cache;     ///< for data::load; empty: none
  std::optional<train::CheckpointState> state;  ///< nothing: a file of weights alone
  train::TensorFile file;
  std::vector<std::string> notes;  ///< on newer checkpoints that were passed over
};

/// Errors: ErrorCode::usage where the path is none of the three, or several runs have checkpoints
/// there; ErrorCode::data where files are damaged.
[[nodiscard]] base::Result<FoundWeights> find_weights(const CheckpointOptions& options);

/// The run file of found weights. Errors: ErrorCode::usage where there is none; the run file's.
[[nodiscard]] base::Result<peer::RunFile> read_run_file_of(const FoundWeights& found,
                                                           const CheckpointOptions& options);

/// A trained model with all that it takes to compute with it.
struct OpenedModel {
  FoundWeights found;
  peer::RunFile run_file;
  Problem problem;
  train::Weights weights;
};

/// Errors: those of find_weights, of run file and data set, and of weights that are not the
/// model's.
[[nodiscard]] base::Result<OpenedModel> open_model(const CheckpointOptions& options);

}  // namespace starling::peers
