#include "train/checkpoint.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

#include <fcntl.h>

#include "base/assert.hpp"
#include "base/file.hpp"
#include "base/hasher.hpp"
#include "base/parse_number.hpp"

namespace starling::train {
namespace {

namespace fs = std::filesystem;

using base::ErrorCode;
using base::fail;

constexpr std::uint64_t kStateBytesMax = 1 << 19;  // with thousands of counters
constexpr std::string_view kPrefix = "step-";
constexpr const char* kStateFile = "state.json";
constexpr const char* kTemporary = ".writing";

/// Writes a safetensors file; returns its XXH3.
base::Result<std::uint64_t> write_tensors(const std::string& path,
                                          std::span<const TensorView> tensors) {
  const std::string header = safetensors_header(tensors);
  const std::vector<base::ByteView> parts = safetensors_parts(header, tensors);
  if (base::Status status = base::write_file_synced(path, parts); !status) {
    return fail(status.error());
  }
  base::Hasher hasher;
  for (const base::ByteView part : parts) hasher.update(part);
  return hasher.digest();
}

base::Status write_folder(const std::string& folder, const CheckpointState& state,
                          std::span<const TensorView> model,
                          std::span<const TensorView> optimizer) {
  const auto model_hash = write_tensors(folder + "/" + kModelFile, model);
  if (!model_hash) return fail(model_hash.error());
  const auto optimizer_hash = write_tensors(folder + "/" + kOptimizerFile, optimizer);
  if (!optimizer_hash) return fail(optimizer_hash.error());
  const std::string out =
      state_text({.state = state, .model_hash = *model_hash, .optimizer_hash = *optimizer_hash});
  const std::array parts{base::bytes_of(out.data(), out.size())};
  if (auto status = base::write_file_synced(folder + "/" + kStateFile, parts); !status) {
    return status;
  }
  return base::sync_folder(folder);
}

base::Result<StateFile> read_state(const std::string& folder) {
  const std::string path = folder + "/" + kStateFile;
  const auto bytes = base::read_file(path, kStateBytesMax);
  if (!bytes) return fail(bytes.error());
  return parse_state(base::text_of(*bytes), path);
}

base::Result<TensorFile> read_tensors(const std::string& path, std::uint64_t hash) {
  auto bytes = base::read_file(path, kTensorFileBytesMax);
  if (!bytes) return fail(bytes.error());
  if (base::xxh3(base::ByteView(*bytes)) != hash) {
    return fail(ErrorCode::data, "{}: is damaged: its hash is not the one in {}", path, kStateFile);
  }
  return TensorFile::parse(std::move(*bytes), path);
}

/// The step of a folder called step-N.
std::optional<std::uint64_t> step_of(const std::string& name) {
  if (!name.starts_with(kPrefix)) return std::nullopt;
  return base::parse_number<std::uint64_t>(std::string_view(name).substr(kPrefix.size()));
}

/// The checkpoint folders below `folder`, the newest first. Error (data): it cannot be listed, so
/// there may be some.
base::Result<std::vector<std::string>> list(const std::string& folder) {
  std::vector<std::pair<std::uint64_t, std::string>> found;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (const auto step = step_of(name)) found.emplace_back(*step, it->path().string());
  }
  if (error && error != std::errc::no_such_file_or_directory) {
    return fail(ErrorCode::data, "{}: cannot be listed: {}", folder, error.message());
  }
  std::ranges::sort(found, std::greater{});
  std::vector<std::string> paths;
  paths.reserve(found.size());
  for (auto& [step, path] : found) paths.push_back(std::move(path));
  return paths;
}

/// Keeps the checkpoint with state `last` and the newest whole ones of this run before it.
void prune(const std::string& folder, const CheckpointState& last, std::uint32_t keep,
           std::span<const base::StepNumber> damaged) {
  std::uint32_t kept = 0;
  const auto there = list(folder);
  if (!there) return;
  for (const std::string& path : *there) {
    const auto read = read_state(path);
    if (!read || read->state.run != last.run) continue;
    const base::StepNumber step = read->state.step;
    const bool is_whole = step == last.step || std::ranges::find(damaged, step) == damaged.end();
    if (is_whole && step <= last.step && kept < keep) {
      ++kept;
      continue;
    }
    // Under the other name, so that the next checkpoint removes the rest that a crash leaves.
    const std::string temporary = folder + "/" + kTemporary;
    std::error_code error;
    fs::rename(path, temporary, error);
    if (!error) fs::remove_all(temporary, error);
  }
}

/// Renames a folder to `path`. A folder that was there gets the other name. If the file system
/// cannot swap the two, that folder is removed first, and a crash in between leaves neither.
std::error_code put_in_place(const std::string& temporary, const std::string& path) {
  std::error_code error;
  if (!fs::exists(path, error)) {
    fs::rename(temporary, path, error);
  } else if (::renameat2(AT_FDCWD, temporary.c_str(), AT_FDCWD, path.c_str(), RENAME_EXCHANGE) !=
             0) {
    fs::remove_all(path, error);
    fs::rename(temporary, path, error);
  }
  return error;
}

}  // namespace

base::Status save_checkpoint(const std::string& folder, const CheckpointState& state,
                             std::span<const TensorView> model,
                             std::span<const TensorView> optimizer, std::uint32_t keep,
                             std::span<const base::StepNumber> damaged) {
  ASSERT(keep >= 1 && std::isfinite(state.progress));
  const std::string path = fmt::format("{}/{}{}", folder, kPrefix, state.step.value);
  const std::string temporary = folder + "/" + kTemporary;
  std::error_code error;
  fs::remove_all(temporary, error);  // left by a crash
  if (base::Status made = base::make_folder(temporary); !made) return made;
  if (base::Status status = write_folder(temporary, state, model, optimizer); !status) {
    fs::remove_all(temporary, error);
    return status;
  }
  error = put_in_place(temporary, path);
  if (error) return fail(ErrorCode::data, "{}: cannot be renamed: {}", path, error.message());
  if (base::Status status = base::sync_folder(folder); !status) return status;
  fs::remove_all(temporary, error);  // an earlier one of the same step
  prune(folder, state, keep, damaged);
  return {};
}

base::Result<Checkpoint> read_checkpoint(const std::string& folder, CheckpointParts parts) {
  auto state = read_state(folder);
  if (!state) return fail(state.error());
  auto model = read_tensors(folder + "/" + kModelFile, state->model_hash);
  if (!model) return fail(model.error());
  if (parts == CheckpointParts::model) {
    return Checkpoint{state->state, std::move(*model), {}, folder};
  }
  auto optimizer = read_tensors(folder + "/" + kOptimizerFile, state->optimizer_hash);
  if (!optimizer) return fail(optimizer.error());
  return Checkpoint{state->state, std::move(*model), std::move(*optimizer), folder};
}

LoadedCheckpoint load_latest_checkpoint(const std::string& folder, const base::Hash128& run,
                                        CheckpointParts parts) {
  LoadedCheckpoint loaded;
  const auto there = list(folder);
  if (!there) {
    loaded.notes.push_back(there.error().text);
    return loaded;
  }
  for (const std::string& path : *there) {
    const auto state = read_state(path);
    if (state && state->state.run != run) {
      loaded.notes.push_back(fmt::format("{}: passed over: belongs to run {}, this is run {}", path,
                                         state->state.run.hex(), run.hex()));
      continue;
    }
    auto checkpoint = read_checkpoint(path, parts);
    if (checkpoint) {
      loaded.checkpoint = std::move(*checkpoint);
      return loaded;
    }
    loaded.notes.push_back(fmt::format("passed over: {}", checkpoint.error().text));
    if (state) loaded.damaged.push_back(state->state.step);
  }
  return loaded;
}

base::Result<std::vector<base::Hash128>> checkpointed_runs(const std::string& folder) {
  const auto there = list(folder);
  if (!there) return fail(there.error());
  std::vector<base::Hash128> runs;
  for (const std::string& path : *there) {
    if (const auto state = read_state(path)) runs.push_back(state->state.run);
  }
  std::ranges::sort(runs);
  runs.erase(std::unique(runs.begin(), runs.end()), runs.end());
  return runs;
}

}  // namespace starling::train
