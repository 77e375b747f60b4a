#include "problem.hpp"

#include <utility>

namespace starling::peers {

using base::fail;

base::Result<Problem> load_problem(const peer::RunFile& run_file, const std::string& place,
                                   const std::string& cache_folder) {
  auto dataset = data::load(run_file.data, 0, cache_folder);
  if (!dataset) return fail(dataset.error());
  if (auto fits = peer::check_input(run_file, dataset->format()); !fits) {
    return fail(fits.error().in(place));
  }
  auto model = model::build(run_file.model, dataset->format().classes);
  if (!model) return fail(model.error().in(place));
  return Problem{std::move(*dataset), std::move(*model)};
}

}  // namespace starling::peers
