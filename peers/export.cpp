// starling export: a checkpoint as one safetensors file that PyTorch loads.
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include <fmt/core.h>

#include "base/file.hpp"
#include "commands.hpp"
#include "complain.hpp"
#include "report/format.hpp"
#include "runtime/open_checkpoint.hpp"

namespace starling::peers {
namespace {

using base::ErrorCode;
using base::fail;

/// All tensors of a file as views of `values`, which they fill, and PyTorch's counters of batch
/// norms as views of `steps`.
base::Result<std::vector<train::TensorView>> views_of(const train::TensorFile& file,
                                                      std::vector<float>& values,
                                                      const std::array<std::int64_t, 1>& steps) {
  std::size_t count = 0;
  for (const train::TensorEntry& entry : file.entries()) count += entry.size;
  values.resize(count);
  std::vector<train::TensorView> views;
  std::size_t at = 0;
  for (const train::TensorEntry& entry : file.entries()) {
    const auto own = std::span(values).subspan(at, entry.size);
    at += entry.size;
    if (auto copied = file.copy(entry.name, entry.shape, own); !copied) {
      return fail(copied.error());
    }
    views.push_back({entry.name, entry.shape, own});
    std::string counter = train::batch_counter_name(entry.name);
    if (!counter.empty()) views.push_back({std::move(counter), {}, std::span(steps)});
  }
  return views;
}

base::Status write(const std::string& path, const std::vector<train::TensorView>& tensors,
                   const train::TensorMetadata& metadata) {
  if (auto checked = train::check_tensors(tensors, metadata); !checked) return checked;
  const std::string header = train::safetensors_header(tensors, metadata);
  return base::replace_file(path, train::safetensors_parts(header, tensors));
}

/// The name of a run that a peer, or a program with an embedded peer, trained. Empty, with a note,
/// if the run file can no longer be read: the weights do not depend on it.
std::string run_name(const std::string& run_file) {
  std::vector<std::string> notes;  // about keys that do not concern the name
  const auto own = runfile::read_run_file(run_file, {}, false, &notes);
  if (own) return own->run.name;
  const auto embedded = runfile::read_run_file(run_file, {}, true, &notes);
  if (embedded) return embedded->run.name;
  say("starling export: run_name is left out: {}\n", own.error().text);
  return {};
}

base::Status export_weights(const ExportOptions& options) {
  const auto found = runtime::find_weights({.path = options.checkpoint, .run_file = {}, .set = {}});
  if (!found) return fail(found.error());
  for (const std::string& note : found->notes) say("starling export: {}\n", note);
  if (!found->state) {
    return fail(ErrorCode::usage, "{}: is a safetensors file already: name a checkpoint",
                found->path);
  }
  const train::CheckpointState& state = *found->state;
  std::vector<float> values;
  const std::array steps{static_cast<std::int64_t>(state.step.value)};
  const auto tensors = views_of(found->file, values, steps);
  if (!tensors) return fail(tensors.error());
  train::TensorMetadata metadata{{"format", "pt"},  // for the transformers library
                                 {"run_id", state.run.hex()},
                                 {"step", fmt::format("{}", state.step.value)},
                                 {"samples", fmt::format("{}", state.samples)}};
  if (!found->run_file.empty()) {
    if (std::string name = run_name(found->run_file); !name.empty()) {
      metadata["run_name"] = std::move(name);
    }
  }
  if (auto written = write(options.out, *tensors, metadata); !written) return written;
  fmt::print("{}: {} tensors, {} values, of {}\n", options.out, tensors->size(),
             report::format_count(values.size()), found->path);
  return {};
}

}  // namespace

int run_export(const ExportOptions& options) {
  const auto exported = export_weights(options);
  if (exported) return 0;
  return complain("export", exported.error());
}

}  // namespace starling::peers
