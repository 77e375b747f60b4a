#include "runtime/problem.hpp"

#include <algorithm>
#include <filesystem>
#include <utility>

#include <fmt/core.h>

#include "peer/buffers.hpp"
#include "runfile/build_model.hpp"
#include "train/weights.hpp"

namespace starling::runtime {

using base::fail;

base::Error with_folder(base::Error error, const data::Config& config) {
  const auto is_relative = [](const std::string& path) { return !path.empty() && path[0] != '/'; };
  if (error.code != base::ErrorCode::data || !std::ranges::any_of(config.path, is_relative)) {
    return error;
  }
  std::error_code failed;
  const std::string folder = std::filesystem::current_path(failed);
  if (!failed) error.text += fmt::format(" (data.path is relative to {})", folder);
  return error;
}

base::Result<Problem> load_problem(const runfile::RunFile& run_file, const std::string& place,
                                   const data::Cache& cache) {
  auto dataset = data::load(run_file.data, model::context_of(run_file.model), cache);
  if (!dataset) return fail(with_folder(dataset.error(), run_file.data));
  auto model = runfile::build_model(run_file, dataset->format());
  if (!model) return fail(model.error().in(place));
  return Problem{std::move(*dataset), std::move(*model)};
}

base::Result<Start> start_of(const runfile::RunFile& run_file, const model::Model& model) {
  auto start = train::initial_weights(model, run_file.run.seed, run_file.init);
  if (!start) return fail(start.error());
  auto buffers = peer::buffer_spec(model.graph, std::move(start->weights.buffers));
  return Start{std::move(start->weights.parameters), std::move(buffers), start->file};
}

}  // namespace starling::runtime
