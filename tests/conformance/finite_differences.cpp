// The gradient against central differences of the plain network in double precision.
#include <algorithm>
#include <cmath>
#include <span>

#include <boost/test/unit_test.hpp>

#include "base/rng.hpp"
#include "checks.hpp"
#include "harness.hpp"

namespace starling::conformance {

using namespace compute;

namespace {

/// A unit vector in the space of the parameters, by its elements that are not zero.
struct Direction {
  std::vector<std::size_t> indices;
  std::vector<double> signs;

  [[nodiscard]] double length() const { return std::sqrt(static_cast<double>(indices.size())); }
  void move(Doubles& parameters, double distance) const {
    for (std::size_t k = 0; k < indices.size(); ++k) {
      parameters[indices[k]] += signs[k] * distance / length();
    }
  }
  [[nodiscard]] double along(const std::vector<float>& gradient) const {
    double sum = 0;
    for (std::size_t k = 0; k < indices.size(); ++k) {
      sum += signs[k] * static_cast<double>(gradient[indices[k]]);
    }
    return sum / length();
  }
};

bool is_large(const Graph& graph) { return graph.parameter_count > 10'000; }

/// Single elements of a tensor: all of a small one, some of a larger one. Of a large network one
/// direction that every element has a part in.
std::vector<Direction> directions(const Graph& graph, const Tensor& tensor, base::Rng& rng) {
  constexpr std::size_t kProbes = 6;
  if (is_large(graph)) {
    Direction all;
    for (std::size_t k = 0; k < tensor.size; ++k) {
      all.indices.push_back(tensor.offset + k);
      all.signs.push_back(rng.below(2) == 0 ? 1 : -1);
    }
    return {all};
  }
  std::vector<Direction> result;
  for (std::size_t k = 0; k < std::min(tensor.size, kProbes); ++k) {
    const std::size_t i = tensor.size <= kProbes ? k : rng.below(tensor.size);
    result.push_back({{tensor.offset + i}, {1}});
  }
  return result;
}

/// Of central differences with two widths: where they differ, a kink (ReLU, maximum) lies between.
struct Slope {
  double value;
  bool smooth;
};

Slope slope_along(const Direction& direction, const Doubles& parameters, auto loss) {
  const auto difference = [&](double width) {
    Doubles above = parameters;
    Doubles below = parameters;
    direction.move(above, width);
    direction.move(below, -width);
    return (loss(above) - loss(below)) / (2 * width);
  };
  const double narrow = difference(1e-6);
  const double wide = difference(1e-5);
  return {narrow, std::abs(narrow - wide) < 1e-7 * (1 + std::abs(wide))};
}

/// `loss` is a function of parameters.
void check_slopes(const Case& item, const Graph& graph, const std::vector<float>& gradient,
                  const Doubles& parameters, base::Rng& rng, auto loss) {
  const double all = largest(doubles(gradient));
  std::size_t kinks = 0;
  std::size_t probed = 0;
  for (const Tensor& tensor : graph.tensors) {
    Doubles values;
    Doubles slopes;
    for (const Direction& direction : directions(graph, tensor, rng)) {
      const Slope slope = slope_along(direction, parameters, loss);
      ++probed;
      kinks += slope.smooth ? 0 : 1;
      if (!slope.smooth) continue;
      values.push_back(direction.along(gradient));
      slopes.push_back(slope.value);
    }
    const auto own = doubles(std::span(gradient).subspan(tensor.offset, tensor.size));
    const double scale = std::max({largest(own), kShareOfAll * all, 1e-3});
    check_close(values, slopes, scale, "slope along " + tensor.name, item.tolerance);
  }
  BOOST_TEST(kinks * 10 <= probed);
}

}  // namespace

void matches_finite_differences(const std::string& device, const Case& item) {
  const Graph graph = item.graph();
  for (const std::uint32_t count : {1U, 2U, 3U}) {
    if (count < item.samples_min || (is_large(graph) && count != 2)) continue;
    BOOST_TEST_CONTEXT("seed " << count << ", " << count << " samples") {
      base::Rng rng(count);
      const State state = random_state(graph, rng);
      const Samples samples = random_samples(graph, count, rng);
      const std::uint64_t seed = rng();
      const Doubles parameters = doubles(state.parameters);
      const auto pass = [&](const Doubles& moved) {
        return run_reference(graph, moved, doubles(state.buffers), samples.view(), count,
                             Mode::training, seed);
      };
      const Step step = train(*compile(device, graph, count), state, samples.view(), seed);
      const Reference expected = pass(parameters);
      check_loss(static_cast<double>(step.loss), expected.loss, "loss of training", item.tolerance);
      check_close(doubles(step.buffers), expected.buffers, 1 + largest(expected.buffers), "buffers",
                  item.tolerance);
      check_slopes(item, graph, step.gradient, parameters, rng,
                   [&](const Doubles& moved) { return pass(moved).loss; });
    }
  }
}

}  // namespace starling::conformance
