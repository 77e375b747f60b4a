// Checkpoints: what a peer needs to go on after a crash or a restart.
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
  TensorFile optimizer;  ///< empty where only the model was read
  std::string folder;    ///< that it was read from
};

/// How much of a checkpoint is read, and checked.
enum class CheckpointParts {
  all,    ///< to go on training
  model,  ///< without the optimizer's tensors, up to kTensorVectorsMax times the model's
};

/// Writes `folder`/step-N with model.safetensors, optimizer.safetensors and state.json. It is
/// written under another name, synced and renamed, so a crash at any moment leaves no half of it
/// under this name. After that only the newest `keep` (at least 1) of this run are left. Those of
/// later steps and those of `damaged` steps are gone: this run was started without them.
/// Checkpoints of other runs stay, and whose state cannot be read. A checkpoint of the same step is
/// replaced. One writer a folder. Blocks for the disk, tens of milliseconds or more.
[[nodiscard]] base::Status save_checkpoint(const std::string& folder, const CheckpointState& state,
                                           std::span<const TensorView> model,
                                           std::span<const TensorView> optimizer,
                                           std::uint32_t keep,
                                           std::span<const base::StepNumber> damaged = {});

struct LoadedCheckpoint {
  std::optional<Checkpoint> checkpoint;   ///< nothing: there is none of this run that is whole
  std::vector<std::string> notes;         ///< which newer ones were passed over, and why
  std::vector<base::StepNumber> damaged;  ///< of those, the steps of this run's
};

/// Reads the newest whole checkpoint of a run. Damaged ones and those of other runs are passed
/// over, with a note each, as is a folder that cannot be listed. One that does not exist holds
/// none.
[[nodiscard]] LoadedCheckpoint load_latest_checkpoint(const std::string& folder,
                                                      const base::Hash128& run,
                                                      CheckpointParts parts = CheckpointParts::all);

/// Reads one checkpoint folder of whatever run. Errors: ErrorCode::data, naming the file.
[[nodiscard]] base::Result<Checkpoint> read_checkpoint(
    const std::string& folder, CheckpointParts parts = CheckpointParts::all);

/// The runs that the checkpoints of a folder belong to, in the order of their ids. Those that
/// cannot be read are not counted. A folder that does not exist holds none. Error
/// (ErrorCode::data): it cannot be listed.
[[nodiscard]] base::Result<std::vector<base::Hash128>> checkpointed_runs(const std::string& folder);

}  // namespace starling::train
