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

/// Of central differences with two widths: where they differ, a kink (ReLU, maximum) lies between.
struct Slope {
  double value;
  bool smooth;
};

Slope slope_at(double& parameter, auto loss) {
  const auto difference = [&](double width) {
    const double kept = parameter;
    parameter = kept + width;
    const double above = loss();
    parameter = kept - width;
    const double below = loss();
    parameter = kept;
    return (above - below) / (2 * width);
  };
  const double narrow = difference(1e-6);
  const double wide = difference(1e-5);
  return {narrow, std::abs(narrow - wide) < 1e-7 * (1 + std::abs(wide))};
}

/// Elements of a tensor: all of a small one, some of a larger one.
std::vector<std::size_t> probes(const Tensor& tensor, base::Rng& rng) {
  constexpr std::size_t kProbes = 6;
  std::vector<std::size_t> result;
  for (std::size_t k = 0; k < std::min(tensor.size, kProbes); ++k) {
    result.push_back(tensor.offset + (tensor.size <= kProbes ? k : rng.below(tensor.size)));
  }
  return result;
}

/// `loss` is a function of `parameters`.
void check_slopes(const Graph& graph, const std::vector<float>& gradient, Doubles& parameters,
                  base::Rng& rng, auto loss) {
  const double all = largest(doubles(gradient));
  std::size_t kinks = 0;
  std::size_t probed = 0;
  for (const Tensor& tensor : graph.tensors) {
    Doubles values;
    Doubles slopes;
    for (const std::size_t i : probes(tensor, rng)) {
      const Slope slope = slope_at(parameters[i], loss);
      ++probed;
      kinks += slope.smooth ? 0 : 1;
      if (!slope.smooth) continue;
      values.push_back(static_cast<double>(gradient[i]));
      slopes.push_back(slope.value);
    }
    const auto own = doubles(std::span(gradient).subspan(tensor.offset, tensor.size));
    const double scale = std::max({largest(own), kShareOfAll * all, 1e-3});
    check_close(values, slopes, scale, "slope along " + tensor.name);
  }
  BOOST_TEST(kinks * 10 <= probed);
}

}  // namespace

void matches_finite_differences(const std::string& device, const Case& item) {
  const Graph graph = item.graph();
  for (const std::uint32_t count : {1U, 2U, 3U}) {
    if (count < item.samples_min) continue;
    BOOST_TEST_CONTEXT("seed " << count << ", " << count << " samples") {
      base::Rng rng(count);
      const State state = random_state(graph, rng);
      const Samples samples = random_samples(graph, count, rng);
      const std::uint64_t seed = rng();
      Doubles parameters = doubles(state.parameters);
      const auto pass = [&] {
        return run_reference(graph, parameters, doubles(state.buffers), samples.view(), count,
                             Mode::training, seed);
      };
      const Step step = train(*compile(device, graph, count), state, samples.view(), seed);
      const Reference expected = pass();
      check_loss(static_cast<double>(step.loss), expected.loss, "loss of training");
      check_close(doubles(step.buffers), expected.buffers, 1 + largest(expected.buffers),
                  "buffers");
      check_slopes(graph, step.gradient, parameters, rng, [&] { return pass().loss; });
    }
  }
}

}  // namespace starling::conformance
