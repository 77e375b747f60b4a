// What a run file trains, made ready: for all commands that need its data and its model.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/hash.hpp"
#include "base/result.hpp"
#include "data/dataset.hpp"
#include "exchange/buffers.hpp"
#include "model/model.hpp"
#include "peer/run_file.hpp"

namespace starling::peers {

struct Problem {
  data::Dataset dataset;
  model::Model model;  ///< takes the data set's samples
};

/// For data::Cache::on_long_read: says so on stderr.
void tell_of_long_read(const std::string& path, std::uint64_t bytes);

/// An error of reading the data, which says where relative paths begin if there are some.
[[nodiscard]] base::Error with_folder(base::Error error, const data::Config& config);

/// Reads the data set and builds the model. `place` (the run file's path) stands in messages;
/// `cache_folder`: for data::load; empty: none.
[[nodiscard]] base::Result<Problem> load_problem(const peer::RunFile& run_file,
                                                 const std::string& place,
                                                 const std::string& cache_folder);

/// What a run starts with.
struct Start {
  std::vector<float> parameters;
  exchange::BufferSpec buffers;
  std::optional<base::Hash128> file;  ///< model.init's, where it is given
};
/// Drawn from run.seed, or read from model.init. Errors: that file's.
[[nodiscard]] base::Result<Start> start_of(const peer::RunFile& run_file,
                                           const model::Model& model);

}  // namespace starling::peers
