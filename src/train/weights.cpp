#include "train/weights.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "base/file.hpp"
#include "base/printable.hpp"
#include "delta/format.hpp"

namespace starling::train {
namespace {

using base::ErrorCode;
using base::fail;
using delta::format::kMagnitudeMax;

constexpr std::string_view kRunningMean = ".running_mean";
constexpr std::string_view kRunningVariance = ".running_var";
constexpr std::size_t kNamesMax = 8;  ///< in one message

/// "'a', 'b' and 3 more"
std::string listed(const std::vector<std::string>& names) {
  const std::size_t shown = std::min(names.size(), kNamesMax);
  std::vector<std::string> quoted;
  for (const std::string& name : std::span(names).first(shown)) {
    quoted.push_back(fmt::format("'{}'", base::printable(name, base::kShownMax)));
  }
  std::string text = fmt::format("{}", fmt::join(quoted, ", "));
  if (shown < names.size()) text += fmt::format(" and {} more", names.size() - shown);
  return text;
}

/// The names in a file.
std::set<std::string_view> names_in(const TensorFile& file) {
  std::set<std::string_view> names;
  for (const TensorEntry& entry : file.entries()) names.insert(entry.name);
  return names;
}

/// Removes the names of these tensors; adds those that were not there to `missing`.
void take_names(std::span<const compute::Tensor> tensors, std::set<std::string_view>& names,
                std::vector<std::string>& missing) {
  for (const compute::Tensor& tensor : tensors) {
    if (names.erase(tensor.name) == 0) missing.push_back(tensor.name);
  }
}

std::string lacks(const std::vector<std::string>& missing) {
  return fmt::format("lacks tensors of the model: {}", listed(missing));
}

/// The names of the file and of the graph must be the same, except for counters.
base::Status check_names(const TensorFile& file, const compute::Graph& graph) {
  std::set<std::string_view> left = names_in(file);
  std::vector<std::string> missing;
  take_names(graph.tensors, left, missing);
  take_names(graph.buffers, left, missing);
  for (const compute::Tensor& buffer : graph.buffers) {
    if (const auto counter = batch_counter_name(buffer.name); !counter.empty()) left.erase(counter);
  }
  if (missing.empty() && left.empty()) return {};
  const std::vector<std::string> extra(left.begin(), left.end());
  std::string text;
  if (!missing.empty()) text += lacks(missing);
  if (!extra.empty()) {
    text += fmt::format("{}has tensors that the model lacks: {}", text.empty() ? "" : "; ",
                        listed(extra));
  }
  return fail(ErrorCode::data, "{}: {}", file.name(), text);
}

/// Checks that a replica accepts the values.
base::Status check_values(const TensorFile& file, std::span<const compute::Tensor> tensors,
                          std::span<const float> values) {
  for (const compute::Tensor& tensor : tensors) {
    const float least = least_value(tensor);
    for (const float value : values.subspan(tensor.offset, tensor.size)) {
      if (value >= least && value <= kMagnitudeMax) continue;
      if (!std::isfinite(value)) {
        return fail(ErrorCode::data, "{}: tensor '{}' has a value that is not finite", file.name(),
                    tensor.name);
      }
      return fail(ErrorCode::data, "{}: tensor '{}' has {}: it must be from {} to {}", file.name(),
                  tensor.name, value, least, kMagnitudeMax);
    }
  }
  return {};
}

}  // namespace

float least_value(const compute::Tensor& tensor) noexcept {
  return tensor.kind == compute::TensorKind::running_variance ? 0.0F : -kMagnitudeMax;
}

std::vector<TensorView> tensor_views(std::span<const compute::Tensor> tensors,
                                     std::span<const float> values) {
  std::vector<TensorView> made;
  for (const compute::Tensor& tensor : tensors) {
    made.push_back({tensor.name, tensor.shape, values.subspan(tensor.offset, tensor.size)});
  }
  return made;
}

base::Status check_has(const TensorFile& file, std::span<const compute::Tensor> tensors) {
  std::set<std::string_view> names = names_in(file);
  std::vector<std::string> missing;
  take_names(tensors, names, missing);
  if (missing.empty()) return {};
  return fail(ErrorCode::data, "{}: {}", file.name(), lacks(missing));
}

base::Status read_tensors(const TensorFile& file, std::span<const compute::Tensor> tensors,
                          std::span<float> values) {
  for (const compute::Tensor& tensor : tensors) {
    auto copied = file.copy(tensor.name, tensor.shape, values.subspan(tensor.offset, tensor.size));
    if (!copied) return copied;
  }
  return {};
}

base::Result<Weights> read_weights(const TensorFile& file, const compute::Graph& graph) {
  if (auto checked = check_names(file, graph); !checked) return fail(checked.error());
  Weights weights{std::vector<float>(graph.parameter_count),
                  std::vector<float>(graph.buffer_count)};
  const std::pair<std::span<const compute::Tensor>, std::span<float>> segments[] = {
      {graph.tensors, weights.parameters}, {graph.buffers, weights.buffers}};
  for (const auto& [tensors, values] : segments) {
    if (auto copied = read_tensors(file, tensors, values); !copied) return fail(copied.error());
    if (auto checked = check_values(file, tensors, values); !checked) return fail(checked.error());
  }
  return weights;
}

base::Result<InitialWeights> initial_weights(const model::Model& model, std::uint64_t seed,
                                             const std::string& init) {
  if (init.empty()) {
    return InitialWeights{{model.initial_parameters(seed), model.initial_buffers()}, {}};
  }
  auto bytes = base::read_file(init, kTensorFileBytesMax);
  if (!bytes) {
    return fail(ErrorCode::data,
                "model.init: {}; every peer of the run needs this file: what peers send are "
                "differences to its weights",
                bytes.error().text);
  }
  const base::Hash128 hash = base::xxh3_128(base::ByteView(*bytes));
  auto file = TensorFile::parse(std::move(*bytes), init);
  if (!file) return fail(file.error().in("model.init"));
  auto weights = read_weights(*file, model.graph);
  if (!weights) return fail(weights.error().in("model.init"));
  return InitialWeights{std::move(*weights), hash};
}

base::Result<std::vector<float>> read_parameters(const TensorFile& file) {
  std::vector<float> parameters;
  for (const TensorEntry& entry : file.entries()) {
    if (is_buffer_name(entry.name)) continue;
    const std::size_t at = parameters.size();
    parameters.resize(at + entry.size);
    const auto copied = file.copy(entry.name, entry.shape, std::span(parameters).subspan(at));
    if (!copied) return base::fail(copied.error());
  }
  return parameters;
}

bool is_buffer_name(std::string_view tensor) noexcept {
  return tensor.ends_with(kRunningMean) || tensor.ends_with(kRunningVariance);
}

std::string batch_counter_name(std::string_view tensor) {
  if (!tensor.ends_with(kRunningMean)) return {};
  tensor.remove_suffix(kRunningMean.size());
  return std::string(tensor) + ".num_batches_tracked";
}

}  // namespace starling::train
