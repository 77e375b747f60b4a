#include "runtime/open_checkpoint.hpp"

#include <filesystem>
#include <utility>

#include <fmt/format.h>

#include "compute/resident.hpp"

namespace starling::runtime {
namespace {

namespace fs = std::filesystem;
using base::ErrorCode;
using base::fail;

constexpr const char* kRunFile = "run.toml";
constexpr const char* kCheckpoints = "checkpoints";

bool is_file(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

bool is_folder(const fs::path& path) {
  std::error_code error;
  return fs::is_directory(path, error);
}

/// Without a slash or a dot at its end, so that parent_path() is the folder around it.
fs::path tidy(const fs::path& path) {
  const fs::path whole = fs::absolute(path).lexically_normal();
  return whole.has_filename() ? whole : whole.parent_path();
}

base::Result<FoundWeights> read_weights_file(const std::string& path) {
  auto file = train::TensorFile::read(path);
  if (!file) return fail(file.error());
  return FoundWeights{.path = path,
                      .run_file = {},
                      .cache = {},
                      .state = {},
                      .file = std::move(*file),
                      .notes = {}};
}

/// `peer`: the folder of the peer that made the checkpoint; empty: it is not known.
FoundWeights found_in(train::Checkpoint checkpoint, const fs::path& peer) {
  FoundWeights found{.path = checkpoint.folder,
                     .run_file = {},
                     .cache = {},
                     .state = checkpoint.state,
                     .file = std::move(checkpoint.model),
                     .notes = {}};
  if (peer.empty()) return found;
  found.cache = tidy(peer).parent_path() / ".cache";
  if (is_file(peer / kRunFile)) found.run_file = peer / kRunFile;
  return found;
}

/// The folder of the peer that made a checkpoint; empty where it was moved out of there.
fs::path maker_of(const fs::path& checkpoint) {
  std::error_code error;
  const fs::path whole = fs::canonical(checkpoint, error);
  if (error || whole.parent_path().filename() != kCheckpoints) return {};
  return whole.parent_path().parent_path();
}

base::Result<FoundWeights> read_newest(const fs::path& peer) {
  const std::string folder = peer / kCheckpoints;
  const auto runs = train::checkpointed_runs(folder);
  if (!runs) return fail(runs.error());
  if (runs->empty()) return fail(ErrorCode::data, "{}: holds no usable checkpoint", folder);
  if (runs->size() > 1) {
    return fail(ErrorCode::data, "{}: holds checkpoints of {} runs: name one of its folders step-N",
                folder, runs->size());
  }
  auto loaded = train::load_latest_checkpoint(folder, runs->front(), train::CheckpointParts::model);
  if (!loaded.checkpoint) {
    return fail(ErrorCode::data, "{}: holds no usable checkpoint: {}", folder,
                fmt::join(loaded.notes, "; "));
  }
  FoundWeights found = found_in(std::move(*loaded.checkpoint), peer);
  found.notes = std::move(loaded.notes);
  return found;
}

/// Without what the command line says of the run file.
base::Result<FoundWeights> find(const std::string& path) {
  if (is_file(path)) return read_weights_file(path);
  const fs::path folder = path;
  if (is_folder(folder / kCheckpoints)) return read_newest(folder);
  if (is_file(folder / "state.json")) {
    auto checkpoint = train::read_checkpoint(folder, train::CheckpointParts::model);
    if (!checkpoint) return fail(checkpoint.error());
    return found_in(std::move(*checkpoint), maker_of(folder));
  }
  return fail(ErrorCode::data,
              "{}: is not a checkpoint (a folder with state.json), a peer's folder (with "
              "{}/) or a safetensors file",
              path, kCheckpoints);
}

}  // namespace

base::Result<FoundWeights> find_weights(const CheckpointOptions& options) {
  auto found = find(options.path);
  if (found && !options.run_file.empty()) found->run_file = options.run_file;
  return found;
}

base::Result<runfile::RunFile> read_run_file_of(FoundWeights& found,
                                                const CheckpointOptions& options) {
  if (found.run_file.empty()) {
    return fail(ErrorCode::usage, "{}: no {} belongs to it: say with --run which run file does",
                found.path, kRunFile);
  }
  auto* const notes = options.run_file.empty() ? &found.notes : nullptr;
  return runfile::read_run_file(found.run_file, options.set, false, notes);
}

base::Result<OpenedModel> open_model(const CheckpointOptions& options,
                                     const data::LongRead& on_long_read) {
  auto found = find_weights(options);
  if (!found) return fail(found.error());
  auto run_file = read_run_file_of(*found, options);
  if (!run_file) return fail(run_file.error());
  auto problem = load_problem(*run_file, found->run_file,
                              {.folder = found->cache, .on_long_read = on_long_read});
  if (!problem) return fail(problem.error());
  auto weights = train::read_weights(found->file, problem->model.graph);
  if (!weights) return fail(weights.error());
  found->file = {};  // as large as the weights
  return OpenedModel{std::move(*found), std::move(*run_file), std::move(*problem),
                     std::move(*weights)};
}

base::Result<compute::Resident*> hold_weights(compute::Program& program,
                                              const compute::Graph& graph,
                                              std::span<const float> parameters) {
  auto resident = program.move_to_device({.decays = std::vector<bool>(graph.tensors.size())});
  if (!resident || *resident == nullptr) return resident;
  auto held = (*resident)->replica().write(parameters);
  if (held) held = (*resident)->snapshot();
  if (!held) return fail(held.error());
  return resident;
}

}  // namespace starling::runtime
