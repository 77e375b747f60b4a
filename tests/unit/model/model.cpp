#include "model/model.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <boost/test/unit_test.hpp>

#include "base/hash.hpp"

using namespace starling;
using namespace starling::model;

namespace {

Spec cnn() {
  return {{1, 28, 28},
          {{.kind = LayerKind::conv2d, .out = 32, .kernel = 3},
           {.kind = LayerKind::relu},
           {.kind = LayerKind::conv2d, .out = 64, .kernel = 3},
           {.kind = LayerKind::relu},
           {.kind = LayerKind::max_pool2d, .kernel = 2},
           {.kind = LayerKind::linear, .out = 128},
           {.kind = LayerKind::relu},
           {.kind = LayerKind::linear, .out = 10}}};
}

std::string error_of(const Spec& spec) {
  const auto model = build(spec, 10);
  return model ? "" : model.error().text;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(model)

BOOST_AUTO_TEST_CASE(build_fills_in_strides_and_counts_parameters) {
  const auto built = build(cnn(), 10);
  BOOST_REQUIRE(built);
  BOOST_TEST(built->parameter_count() == 1'199'882U);
  BOOST_TEST(compute::to_string(built->graph.ops[2].out) == "64x24x24");
  BOOST_TEST(compute::to_string(built->graph.ops[4].out) == "64x12x12");
  const auto mlp = build({{784},
                          {{.kind = LayerKind::linear, .out = 256},
                           {.kind = LayerKind::relu},
                           {.kind = LayerKind::linear, .out = 10}}},
                         10);
  BOOST_REQUIRE(mlp);
  BOOST_TEST(mlp->parameter_count() == 203'530U);
}

BOOST_AUTO_TEST_CASE(errors_name_the_layer_its_kind_and_the_shapes) {
  Spec spec = cnn();
  spec.layers[2].kernel = 27;
  BOOST_TEST(error_of(spec) ==
             "model: layer 3 (conv2d): its window of 27x27 is larger than its input 32x26x26 with "
             "0 pixels of padding");
  spec = cnn();
  spec.layers.push_back({.kind = LayerKind::max_pool2d, .kernel = 2});
  BOOST_TEST(contains(error_of(spec), "layer 9 (max_pool2d): needs an input of channels"));
  spec = cnn();
  spec.layers.back().out = 11;
  BOOST_TEST(contains(error_of(spec), "gives 11 outputs, but the data has 10 classes"));
  spec = cnn();
  spec.input = {1, 1, 28, 28};
  BOOST_TEST(contains(error_of(spec), "has 4 sides"));
  BOOST_TEST(contains(error_of({{784}, {}}), "no layer that can be trained"));
}

BOOST_AUTO_TEST_CASE(initial_parameters_have_the_same_bits_on_every_machine) {
  const auto built = build(cnn(), 10);
  BOOST_REQUIRE(built);
  const std::vector<float> parameters = built->initial_parameters(1);
  // Peers compare this hash before they train together: it must never change.
  BOOST_TEST(base::xxh3(base::bytes_of(std::span(parameters))) == 0xb6dc0678719762a5ULL);
  BOOST_TEST((parameters == built->initial_parameters(1)));
  BOOST_TEST((parameters != built->initial_parameters(2)));
}

BOOST_AUTO_TEST_CASE(initial_parameters_fill_the_range_of_their_layer) {
  const auto built = build(cnn(), 10);
  BOOST_REQUIRE(built);
  const std::vector<float> parameters = built->initial_parameters(3);
  for (const compute::Tensor& tensor : built->graph.tensors) {
    const bool feeds_relu = tensor.shape.size() > 1 && tensor.name != "layers.7.weight";
    const double bound = std::sqrt((feeds_relu ? 6.0 : 1.0) / tensor.fan_in);
    double largest = 0;
    double sum = 0;
    for (std::size_t i = 0; i < tensor.size; ++i) {
      const double value = parameters[tensor.offset + i];
      BOOST_REQUIRE(value != 0.0);
      largest = std::max(largest, std::abs(value));
      sum += value;
    }
    BOOST_TEST_CONTEXT(tensor.name << ", seed 3") {
      BOOST_TEST(largest <= bound * 1.000001);
      BOOST_TEST(largest > bound * 0.7);
      // Five standard deviations of the mean of uniform values.
      const double size = static_cast<double>(tensor.size);
      BOOST_TEST(std::abs(sum / size) < 5 * bound / std::sqrt(3 * size));
    }
  }
}

BOOST_AUTO_TEST_CASE(table_lists_every_layer_and_the_total) {
  const auto built = build(cnn(), 10);
  BOOST_REQUIRE(built);
  const std::string table = built->table();
  BOOST_TEST(std::ranges::count(table, '\n') == 11);
  BOOST_TEST(contains(table, "  3  conv2d          64x24x24         18496\n"));
  BOOST_TEST(contains(table, "1199882\n"));
}

BOOST_AUTO_TEST_SUITE_END()
