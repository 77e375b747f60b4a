// Trained weights and what they belong to: for the commands that use them without training.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "compute/program.hpp"
#include "runfile/run_file.hpp"
#include "runtime/checkpoint_options.hpp"
#include "runtime/problem.hpp"
#include "train/checkpoint.hpp"
#include "train/weights.hpp"

namespace starling::runtime {

/// The tensors, found and read. Hashes of a checkpoint's files have been compared.
struct FoundWeights {
  std::string path;      ///< of the checkpoint's folder, or of the file
  std::string run_file;  ///< path: the given one, or that beside it; empty: none
  std::string cache;     ///< for data::load; empty: none
  std::optional<train::CheckpointState> state;  ///< nothing: a file of weights alone
  train::TensorFile file;
  std::vector<std::string> notes;  ///< on newer checkpoints, and keys, that were passed over
};

/// Errors: ErrorCode::data where the path is none of the three, where several runs have checkpoints
/// there, or where files are damaged.
[[nodiscard]] base::Result<FoundWeights> find_weights(const CheckpointOptions& options);

/// The run file of found weights. Errors: ErrorCode::usage where there is none; the run file's.
[[nodiscard]] base::Result<runfile::RunFile> read_run_file_of(FoundWeights& found,
                                                              const CheckpointOptions& options);

/// A trained model with all that it takes to compute with it.
struct OpenedModel {
  FoundWeights found;
  runfile::RunFile run_file;
  Problem problem;
  train::Weights weights;
};

/// `on_long_read`: data::Cache's. Errors: those of find_weights, of run file and data set, and of
/// weights that are not the model's.
[[nodiscard]] base::Result<OpenedModel> open_model(const CheckpointOptions& options,
                                                   const data::LongRead& on_long_read);

/// Takes weights to a device with memory of its own, so that they do not go there with each call:
/// what evaluates and gives outputs of them from now on, for as long as `program` lives. Null,
/// where they come with each call. Errors: the device's.
[[nodiscard]] base::Result<compute::Resident*> hold_weights(compute::Program& program,
                                                            const compute::Graph& graph,
                                                            std::span<const float> parameters);

}  // namespace starling::runtime
