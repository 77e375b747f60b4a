#include "problem.hpp"

#include <utility>

#include "peer/build_model.hpp"

namespace starling::peers {

using base::fail;

base::Result<Problem> load_problem(const peer::RunFile& run_file, const std::string& place,
                                   const std::string& cache_folder) {
  auto dataset = data::load(run_file.data, model::context_of(run_file.model), cache_folder);
  if (!dataset) return fail(dataset.error());
  auto model = peer::build_model(run_file, dataset->format());
  if (!model) return fail(model.error().in(place));
  return Problem{std::move(*dataset), std::move(*model)};
}

}  // namespace starling::peers
