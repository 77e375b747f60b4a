#include "compute/graph.hpp"

#include <string>

#include <boost/test/unit_test.hpp>

#include "networks.hpp"

using namespace starling;
using namespace starling::compute;
using namespace starling::compute::testing;

namespace {

std::string error_of(const base::Status& status) { return status ? "" : status.error().text; }

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(graph)

BOOST_AUTO_TEST_CASE(reference_cnn_has_pytorchs_names_shapes_and_order) {
  const Graph graph = reference_cnn();
  BOOST_TEST(graph.parameter_count == 1'199'882U);
  BOOST_TEST(graph.tensors.size() == 8U);
  BOOST_TEST(graph.tensors[2].name == "layers.2.weight");
  BOOST_TEST(to_string(graph.tensors[2].shape) == "64x32x3x3");
  BOOST_TEST(graph.tensors[2].offset == 320U);
  BOOST_TEST(graph.tensors[2].fan_in == 288U);
  BOOST_TEST(graph.tensors[4].name == "layers.5.weight");
  BOOST_TEST(to_string(graph.tensors[4].shape) == "128x9216");
  BOOST_TEST(graph.tensors[7].name == "layers.7.bias");
  std::size_t offset = 0;
  for (const Tensor& tensor : graph.tensors) {
    BOOST_TEST(tensor.offset == offset);
    BOOST_TEST(tensor.size == elements(tensor.shape));
    offset += tensor.size;
  }
  BOOST_TEST(offset == graph.parameter_count);
}

BOOST_AUTO_TEST_CASE(training_flops_leave_out_the_gradient_of_the_samples) {
  GraphBuilder builder = need(GraphBuilder::start({1, 4, 4}));
  need(builder.conv2d(
      {.out_channels = 2, .kernel = 3}));  // 18 weights, 2x2 places: 72 multiply-adds
  need(builder.linear(5));                 // 40 multiply-adds
  const Graph graph = need(std::move(builder).finish(5));
  BOOST_TEST(training_flops(graph) == 2.0 * (72 * 2 + 40 * 3));
  BOOST_TEST(forward_flops(graph) == 2.0 * (72 + 40));
}

BOOST_AUTO_TEST_CASE(strides_and_padding_give_pytorchs_output_shapes) {
  GraphBuilder builder = need(GraphBuilder::start({3, 10, 7}));
  need(builder.conv2d({.out_channels = 4, .kernel = 3, .stride = 2, .padding = 1}));
  BOOST_TEST(to_string(builder.shape()) == "4x5x4");
  need(builder.max_pool2d(2, 2));
  BOOST_TEST(to_string(builder.shape()) == "4x2x2");
  need(builder.linear(6));
  BOOST_TEST(to_string(builder.shape()) == "6");
}

BOOST_AUTO_TEST_CASE(shapes_that_do_not_fit_are_refused_and_named) {
  GraphBuilder builder = need(GraphBuilder::start({1, 4, 5}));
  BOOST_TEST(contains(error_of(builder.conv2d({.out_channels = 2, .kernel = 5})), "1x4x5"));
  BOOST_TEST(contains(error_of(builder.conv2d({.out_channels = 2, .kernel = 3, .padding = 3})),
                      "padding"));
  BOOST_TEST(contains(error_of(builder.conv2d({.out_channels = 0, .kernel = 3})), "out is 0"));
  BOOST_TEST(contains(error_of(builder.conv2d({.out_channels = 2, .kernel = 0})), "kernel is 0"));
  BOOST_TEST(contains(error_of(builder.max_pool2d(6, 1)), "6x6"));
  need(builder.linear(3));
  BOOST_TEST(contains(error_of(builder.max_pool2d(2, 2)), "channels x height x width"));
  BOOST_TEST(contains(error_of(builder.conv2d({.out_channels = 2, .kernel = 1})), "3 features"));
  const auto finished = std::move(builder).finish(10);
  BOOST_REQUIRE(!finished);
  BOOST_TEST(contains(finished.error().text, "gives 3 outputs, but the data has 10 classes"));
}

BOOST_AUTO_TEST_CASE(sizes_beyond_the_limits_are_refused_without_overflow) {
  BOOST_TEST(!GraphBuilder::start({0xffffffffU, 0xffffffffU, 0xffffffffU}));
  BOOST_TEST(!GraphBuilder::start({3, 0, 3}));
  BOOST_TEST(!GraphBuilder::start({3, 3, 3, 3}));
  GraphBuilder builder = need(GraphBuilder::start({1, 2048, 2048}));
  BOOST_TEST(!builder.linear(kMaxSide));
  BOOST_TEST(!builder.conv2d({.out_channels = kMaxSide, .kernel = 2000}));
  BOOST_TEST(!builder.conv2d({.out_channels = 64, .kernel = kMaxSide, .padding = kMaxSide - 1}));
  BOOST_TEST(!builder.conv2d({.out_channels = 64, .kernel = 3}));
  BOOST_TEST(to_string(builder.shape()) == "1x2048x2048");
}

BOOST_AUTO_TEST_CASE(a_model_without_parameters_or_with_too_many_classes_is_refused) {
  GraphBuilder none = need(GraphBuilder::start({10}));
  need(none.relu());
  BOOST_TEST(!std::move(none).finish(10));
  GraphBuilder many = need(GraphBuilder::start({10}));
  need(many.linear(kMaxClasses + 1));
  BOOST_TEST(!std::move(many).finish(kMaxClasses + 1));
}

BOOST_AUTO_TEST_SUITE_END()
