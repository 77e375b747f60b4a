// Every layer's gradient against central finite differences of a plain double-precision network.
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include <boost/test/unit_test.hpp>

#include "networks.hpp"
#include "reference.hpp"

using namespace starling;
using namespace starling::compute;
using namespace starling::compute::testing;

namespace {

struct Case {
  std::string name;
  Shape input;
  std::uint32_t classes;
  std::function<void(GraphBuilder&)> layers;
};

const std::vector<Case>& cases() {
  static const std::vector<Case> all{
      {"linear", {7}, 3, [](GraphBuilder& b) { need(b.linear(3)); }},
      {"two linear with relu",
       {9},
       4,
       [](GraphBuilder& b) {
         need(b.linear(13));
         need(b.relu());
         need(b.linear(4));
       }},
      {"relu first and last",
       {5},
       3,
       [](GraphBuilder& b) {
         need(b.relu());
         need(b.linear(3));
         need(b.relu());
       }},
      {"conv, odd channels, not square",
       {3, 7, 5},
       5,
       [](GraphBuilder& b) {
         need(b.conv2d({.out_channels = 5, .kernel = 3}));
         need(b.relu());
         need(b.conv2d({.out_channels = 3, .kernel = 2}));
         need(b.linear(5));
       }},
      {"conv with padding",
       {1, 6, 5},
       3,
       [](GraphBuilder& b) {
         need(b.conv2d({.out_channels = 8, .kernel = 3, .padding = 1}));
         need(b.relu());
         need(b.conv2d({.out_channels = 9, .kernel = 3, .padding = 2}));
         need(b.relu());
         need(b.linear(3));
       }},
      {"conv with stride that leaves a rest",
       {2, 8, 9},
       3,
       [](GraphBuilder& b) {
         need(b.conv2d({.out_channels = 4, .kernel = 3, .stride = 2, .padding = 1}));
         need(b.relu());
         need(b.conv2d({.out_channels = 6, .kernel = 2, .stride = 2}));
         need(b.linear(3));
       }},
      {"conv as the last layer",
       {2, 3, 3},
       4,
       [](GraphBuilder& b) { need(b.conv2d({.out_channels = 4, .kernel = 3})); }},
      {"pool of relu of conv",
       {1, 8, 8},
       3,
       [](GraphBuilder& b) {
         need(b.conv2d({.out_channels = 5, .kernel = 3}));
         need(b.relu());
         need(b.max_pool2d(2, 2));
         need(b.linear(3));
       }},
      {"pool before relu, overlapping windows",
       {2, 7, 9},
       3,
       [](GraphBuilder& b) {
         need(b.conv2d({.out_channels = 8, .kernel = 2}));
         need(b.max_pool2d(3, 2));
         need(b.relu());
         need(b.linear(3));
       }},
      {"overlapping pool of relu, then relu",
       {1, 7, 7},
       3,
       [](GraphBuilder& b) {
         need(b.conv2d({.out_channels = 6, .kernel = 2}));
         need(b.relu());
         need(b.max_pool2d(3, 1));
         need(b.relu());
         need(b.conv2d({.out_channels = 5, .kernel = 2}));
         need(b.linear(3));
       }},
      {"pool first, windows apart",
       {2, 8, 8},
       3,
       [](GraphBuilder& b) {
         need(b.max_pool2d(2, 3));
         need(b.conv2d({.out_channels = 4, .kernel = 2}));
         need(b.relu());
         need(b.linear(3));
       }},
      {"16 channels",
       {16, 5, 5},
       3,
       [](GraphBuilder& b) {
         need(b.conv2d({.out_channels = 16, .kernel = 3, .padding = 1}));
         need(b.relu());
         need(b.max_pool2d(2, 2));
         need(b.conv2d({.out_channels = 24, .kernel = 2}));
         need(b.relu());
         need(b.linear(3));
       }},
  };
  return all;
}

Graph make(const Case& item) {
  GraphBuilder builder = need(GraphBuilder::start(item.input));
  item.layers(builder);
  return need(std::move(builder).finish(item.classes));
}

/// Central differences with two widths: where they differ, a kink (ReLU, maximum) lies between.
struct Slope {
  double value;
  bool smooth;
};

Slope slope(const Graph& graph, Doubles& parameters, const Batch& batch, std::size_t i) {
  const auto difference = [&](double width) {
    const double kept = parameters[i];
    parameters[i] = kept + width;
    const double above = mean_loss(graph, parameters, batch);
    parameters[i] = kept - width;
    const double below = mean_loss(graph, parameters, batch);
    parameters[i] = kept;
    return (above - below) / (2 * width);
  };
  const double narrow = difference(1e-6);
  const double wide = difference(1e-5);
  return {narrow, std::abs(narrow - wide) < 1e-6};
}

void check_gradient(const Case& item, std::uint32_t count, std::uint64_t seed) {
  base::Rng rng(seed);
  const Graph graph = make(item);
  const std::vector<float> parameters = random_floats(graph.parameter_count, rng, 0.5F);
  const OwnedBatch batch(graph, count, rng);
  std::vector<float> gradient(graph.parameter_count, 99.0F);
  const float loss =
      need(compile(graph, count)->forward_backward(parameters, {}, batch.view(), 0, gradient));

  Doubles exact(parameters.begin(), parameters.end());
  BOOST_TEST(std::abs(loss - mean_loss(graph, exact, batch.view())) < 2e-6 * (1 + loss));
  // Every parameter of a small network, about kProbes of a larger one.
  constexpr std::size_t kProbes = 300;
  std::size_t checked = 0;
  std::size_t probed = 0;
  for (std::size_t i = 0; i < exact.size(); i += 1 + rng.below(2 * exact.size() / kProbes + 1)) {
    ++probed;
    const Slope expected = slope(graph, exact, batch.view(), i);
    if (!expected.smooth) continue;
    ++checked;
    BOOST_TEST_CONTEXT("parameter " << i) {
      BOOST_TEST(std::abs(gradient[i] - expected.value) < 2e-5);
    }
  }
  BOOST_TEST(checked > probed * 9 / 10);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(gradient)

BOOST_AUTO_TEST_CASE(matches_finite_differences_for_every_layer) {
  for (const Case& item : cases()) {
    for (const std::uint32_t count : {1U, 3U}) {
      const std::uint64_t seed = 20 + count;
      BOOST_TEST_CONTEXT(item.name << ", batch " << count << ", seed " << seed) {
        check_gradient(item, count, seed);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(of_a_short_batch_is_that_of_a_program_made_for_it) {
  for (const Case& item : cases()) {
    BOOST_TEST_CONTEXT(item.name << ", seed 4") {
      base::Rng rng(4);
      const Graph graph = make(item);
      const auto parameters = random_floats(graph.parameter_count, rng, 0.5F);
      const OwnedBatch batch(graph, 5, rng);
      std::vector<float> expected(graph.parameter_count);
      std::vector<float> gradient(graph.parameter_count);
      const float loss =
          need(compile(graph, 3)->forward_backward(parameters, {}, batch.view(0, 3), 0, expected));
      const auto program = compile(graph, 5);
      // The full batch first: nothing of it may be left over.
      BOOST_TEST(need(program->forward_backward(parameters, {}, batch.view(), 0, gradient)) !=
                 loss);
      const float short_loss =
          need(program->forward_backward(parameters, {}, batch.view(0, 3), 0, gradient));
      BOOST_TEST(std::abs(short_loss - loss) < 1e-6F * (1 + loss));
      for (std::size_t i = 0; i < gradient.size(); ++i) {
        BOOST_TEST(std::abs(gradient[i] - expected[i]) < 1e-5F);
      }
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
