#include "samples.hpp"

#include <cmath>
#include <span>

#include "tests/unit/compute/networks.hpp"

namespace starling::conformance {

using namespace compute;
using compute::testing::random_floats;

namespace {

std::vector<std::int32_t> random_labels(std::size_t count, std::uint32_t classes, base::Rng& rng) {
  std::vector<std::int32_t> labels(count);
  for (auto& label : labels) label = static_cast<std::int32_t>(rng.below(classes));
  return labels;
}

float bound(const Tensor& tensor) {
  switch (tensor.kind) {
    case TensorKind::weight:
      return 1.7F / std::sqrt(static_cast<float>(tensor.fan_in));
    case TensorKind::embedding:
      return 1.0F;
    default:
      return 0.5F;
  }
}

/// Values around one, as in a network that trains.
bool is_factor(TensorKind kind) {
  return kind == TensorKind::scale || kind == TensorKind::running_variance;
}

std::vector<float> random_tensors(const std::vector<Tensor>& tensors, base::Rng& rng) {
  std::vector<float> all;
  for (const Tensor& tensor : tensors) {
    for (const float value : random_floats(tensor.size, rng, bound(tensor))) {
      all.push_back(is_factor(tensor.kind) ? 1 + value : value);
    }
  }
  return all;
}

}  // namespace

Batch Samples::view(std::size_t first, std::size_t number) const {
  const auto part = [&](const auto& all) {
    const std::size_t each = all.size() / count;
    return std::span(all).subspan(first * each, number * each);
  };
  return {part(samples), part(tokens), part(labels), part(targets)};
}

Samples random_samples(const Graph& graph, std::size_t count, base::Rng& rng) {
  Samples result{.count = count};
  if (graph.vocabulary > 0) {
    result.tokens = random_labels(count * graph.input[0], graph.vocabulary, rng);
  } else {
    result.samples = random_floats(count * elements(graph.input), rng);
  }
  if (graph.loss.kind == LossKind::cross_entropy) {
    result.labels = random_labels(count * graph.positions, graph.classes, rng);
  } else {
    result.targets = random_floats(count * graph.outputs(), rng);
  }
  return result;
}

State random_state(const Graph& graph, base::Rng& rng) {
  return {random_tensors(graph.tensors, rng), random_tensors(graph.buffers, rng)};
}

}  // namespace starling::conformance
