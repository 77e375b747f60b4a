// Checkpoints, from which a peer continues after a crash or a restart.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/hash.hpp"
#include "base/result.hpp"
#include "train/checkpoint_state.hpp"
#include "train/safetensors.hpp"

namespace starling::train {

struct Checkpoint {
  CheckpointState state;
  TensorFile model;
  TensorFile optimizer;  ///< empty if only the model was read
  std::string folder;    ///< it was read from here
};

/// How much of a checkpoint is read, and checked.
enum class CheckpointParts {
  all,    ///< to continue training
  model,  ///< without the optimizer's tensors, up to kTensorVectorsMax times the model's
};

/// Writes `folder`/step-N with model.safetensors, optimizer.safetensors and state.json. It is
/// written under another name, synced and renamed, so a crash never leaves a part of it under this
/// name. Then only the newest `keep` (at least 1) checkpoints of this run are kept. Those of later
/// steps and of `damaged` steps are removed: this run was started without them. Checkpoints of
/// other runs, and those whose state cannot be read, stay. A checkpoint of the same step is
/// replaced. One writer per folder. Blocks for the disk, tens of milliseconds or more.
[[nodiscard]] base::Status save_checkpoint(const std::string& folder, const CheckpointState& state,
                                           std::span<const TensorView> model,
                                           std::span<const TensorView> optimizer,
                                           std::uint32_t keep,
                                           std::span<const base::StepNumber> damaged = {});

struct LoadedCheckpoint {
  std::optional<Checkpoint> checkpoint;   ///< nothing: this run has no whole checkpoint
  std::vector<std::string> notes;         ///< the newer ones that were passed over, and why
  std::vector<base::StepNumber> damaged;  ///< the steps of those that belong to this run
};

/// Reads the newest whole checkpoint of a run. Damaged ones and those of other runs are passed
/// over, with a note for each, and so is a folder that cannot be listed. A folder that does not
/// exist has no checkpoints.
[[nodiscard]] LoadedCheckpoint load_latest_checkpoint(const std::string& folder,
                                                      const base::Hash128& run,
                                                      CheckpointParts parts = CheckpointParts::all);

/// Reads one checkpoint folder of any run. Errors: ErrorCode::data, naming the file.
[[nodiscard]] base::Result<Checkpoint> read_checkpoint(
    const std::string& folder, CheckpointParts parts = CheckpointParts::all);

/// The runs that the checkpoints of a folder belong to, in the order of their ids. Unreadable
/// checkpoints are not counted. A folder that does not exist has none. Error (ErrorCode::data): it
/// cannot be listed.
[[nodiscard]] base::Result<std::vector<base::Hash128>> checkpointed_runs(const std::string& folder);

}  // namespace starling::train
