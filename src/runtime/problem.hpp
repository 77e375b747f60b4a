// The data set and the model of a run file, for all commands that need them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/hash.hpp"
#include "base/result.hpp"
#include "data/cache.hpp"
#include "data/dataset.hpp"
#include "exchange/buffers.hpp"
#include "model/model.hpp"
#include "runfile/run_file.hpp"

namespace starling::runtime {

struct Problem {
  data::Dataset dataset;
  model::Model model;  ///< takes the data set's samples
};

/// An error of reading the data, which says where relative paths begin if there are some.
[[nodiscard]] base::Error with_folder(base::Error error, const data::Config& config);

/// Reads the data set and builds the model. `place`, the run file's path, stands in messages.
[[nodiscard]] base::Result<Problem> load_problem(const runfile::RunFile& run_file,
                                                 const std::string& place,
                                                 const data::Cache& cache);

/// The start of a run.
struct Start {
  std::vector<float> parameters;
  exchange::BufferSpec buffers;
  std::optional<base::Hash128> file;  ///< model.init's, where it is given
};
/// Drawn from run.seed, or read from model.init. Errors: that file's.
[[nodiscard]] base::Result<Start> start_of(const runfile::RunFile& run_file,
                                           const model::Model& model);

}  // namespace starling::runtime
