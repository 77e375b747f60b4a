#include "compute/graph.hpp"

#include <string>
#include <variant>
#include <vector>

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

BOOST_AUTO_TEST_CASE(training_flops_count_gradients_where_something_before_has_parameters) {
  GraphBuilder normed = need(GraphBuilder::start({1, 4, 4}));
  need(normed.batch_norm());  // its parameters need the convolution's gradient
  need(normed.conv2d({.out_channels = 2, .kernel = 3}));
  need(normed.linear(5));
  const Graph after_norm = need(std::move(normed).finish(5));
  BOOST_TEST(training_flops(after_norm) == 2.0 * 3 * (72 + 40));

  GraphBuilder branches = need(GraphBuilder::start({4}));
  need(branches.linear(4));
  const ValueId one = branches.value();
  branches.seek(kGraphInput);
  need(branches.linear(4));  // of the samples, too
  need(branches.add(one));
  need(branches.linear(3));
  const Graph branched = need(std::move(branches).finish(3));
  BOOST_TEST(training_flops(branched) == 2.0 * (2 * 16 * 2 + 12 * 3));

  GraphBuilder attended = need(GraphBuilder::start({2, 12}));
  need(attended.attention(2, 2));  // 3 pairs, 2 heads of 2 features, twice: 24 multiply-adds
  need(attended.linear(3));        // 2 x 12
  const Graph of_samples = need(std::move(attended).finish(3));
  BOOST_TEST(training_flops(of_samples) == 2.0 * (24 + 24 * 2));
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
  BOOST_TEST(!builder.linear(kSideMax));
  BOOST_TEST(!builder.conv2d({.out_channels = kSideMax, .kernel = 2000}));
  BOOST_TEST(!builder.conv2d({.out_channels = 64, .kernel = kSideMax, .padding = kSideMax - 1}));
  BOOST_TEST(!builder.conv2d({.out_channels = 64, .kernel = 3}));
  BOOST_TEST(to_string(builder.shape()) == "1x2048x2048");
}

BOOST_AUTO_TEST_CASE(a_model_without_parameters_or_with_too_many_classes_is_refused) {
  GraphBuilder none = need(GraphBuilder::start({10}));
  need(none.relu());
  BOOST_TEST(!std::move(none).finish(10));
  GraphBuilder many = need(GraphBuilder::start({10}));
  need(many.linear(kClassesMax + 1));
  BOOST_TEST(!std::move(many).finish(kClassesMax + 1));
}

BOOST_AUTO_TEST_CASE(dilation_and_groups_shape_results_and_weights_as_in_pytorch) {
  GraphBuilder builder = need(GraphBuilder::start({4, 11, 10}));
  need(builder.conv2d({.out_channels = 6,
                       .kernel = 3,
                       .stride = 2,
                       .padding = 2,
                       .dilation = 2,
                       .groups = 2,
                       .weight = {.bias = false}}));
  BOOST_TEST(to_string(builder.shape()) == "6x6x5");
  need(builder.average_pool2d(2, 3));
  BOOST_TEST(to_string(builder.shape()) == "6x2x2");
  need(builder.global_average_pool());
  const Graph graph = need(std::move(builder).finish(6));
  BOOST_REQUIRE(graph.tensors.size() == 1U);
  BOOST_TEST(to_string(graph.tensors[0].shape) == "6x2x3x3");
  BOOST_TEST(graph.tensors[0].fan_in == 18U);
  BOOST_TEST(forward_flops(graph) == 2.0 * 6 * 18 * 30);
}

BOOST_AUTO_TEST_CASE(windows_and_groups_that_do_not_fit_are_refused) {
  GraphBuilder builder = need(GraphBuilder::start({4, 5, 5}));
  BOOST_TEST(
      contains(error_of(builder.conv2d({.out_channels = 4, .kernel = 3, .dilation = 3})), "7x7"));
  BOOST_TEST(contains(error_of(builder.conv2d({.out_channels = 4, .kernel = 1, .groups = 3})),
                      "3 groups do not divide its 4 input and 4 output channels"));
  BOOST_TEST(contains(error_of(builder.conv2d({.out_channels = 4, .kernel = 1, .groups = 0})),
                      "groups is 0"));
  BOOST_TEST(!builder.conv2d({.out_channels = 4, .kernel = kSideMax, .dilation = kSideMax}));
  BOOST_TEST(contains(error_of(builder.max_pool2d(3, 1, 2)), "at most half of the kernel"));
  BOOST_TEST(to_string(builder.shape()) == "4x5x5");
}

BOOST_AUTO_TEST_CASE(batch_norm_has_parameters_and_buffers_with_pytorchs_names) {
  GraphBuilder builder = need(GraphBuilder::start({2, 4, 4}));
  need(builder.batch_norm());
  builder.name_next("bn");
  need(builder.batch_norm());
  need(builder.linear(3));
  const Graph graph = need(std::move(builder).finish(3));
  BOOST_REQUIRE(graph.buffers.size() == 4U);
  BOOST_TEST(graph.buffers[0].name == "layers.0.running_mean");
  BOOST_TEST(graph.buffers[3].name == "bn.running_var");
  BOOST_TEST(graph.buffers[3].offset == 6U);
  BOOST_TEST(graph.buffer_count == 8U);
  BOOST_TEST((graph.buffers[3].kind == TensorKind::running_variance));
  BOOST_TEST(graph.tensors[2].name == "bn.weight");
  BOOST_TEST((graph.tensors[2].kind == TensorKind::scale));
  BOOST_TEST((graph.tensors[3].kind == TensorKind::shift));
  BOOST_TEST(graph.ops[2].name == "layers.2");
}

BOOST_AUTO_TEST_CASE(a_language_model_counts_labels_classes_and_attention) {
  GraphBuilder builder = need(GraphBuilder::start_tokens(6, 11));
  need(builder.embedding(8, 0.02F));
  need(builder.positions());
  need(builder.linear(32, {.bias = false}));
  need(builder.attention(4, 2, 10000.0F));  // 4 + 2 x 2 heads of 4
  BOOST_TEST(to_string(builder.shape()) == "6x16");
  need(builder.linear(16));
  need(builder.swiglu());
  BOOST_TEST(to_string(builder.shape()) == "6x8");
  need(builder.tied_linear());
  const Graph graph = need(std::move(builder).finish(11, 0.1F));
  BOOST_TEST(graph.positions == 6U);
  BOOST_TEST(graph.classes == 11U);
  BOOST_TEST(graph.outputs() == 66U);
  BOOST_TEST(graph.loss.label_smoothing == 0.1F);
  BOOST_TEST(graph.parameter_count == 11U * 8 + 6 * 8 + 32 * 8 + 16 * 16 + 16);
  BOOST_TEST(std::get<Linear>(graph.ops.back().kind).weight == 0U);
  BOOST_TEST(graph.tensors[0].initial_std == 0.02F);
  const double linears = 6.0 * (32 * 8 + 16 * 16 + 11 * 8);
  const double attention = 2.0 * (6 * 7 / 2) * 4 * 4;  // scores and values of the pairs it sees
  BOOST_TEST(forward_flops(graph) == 2.0 * (linears + attention));
  BOOST_TEST(training_flops(graph) == 3 * forward_flops(graph));
}

BOOST_AUTO_TEST_CASE(sequences_that_do_not_fit_are_refused_and_named) {
  BOOST_TEST(!GraphBuilder::start_tokens(4, 1));
  BOOST_TEST(!GraphBuilder::start_tokens(0, 4));
  GraphBuilder builder = need(GraphBuilder::start_tokens(4, 9));
  BOOST_TEST(contains(error_of(builder.linear(3)), "an embedding must be the first layer"));
  need(builder.embedding(10));
  BOOST_TEST(!builder.embedding(10));
  BOOST_TEST(contains(error_of(builder.attention(3, 2)), "2 kv_heads do not divide 3 heads"));
  BOOST_TEST(contains(error_of(builder.attention(2, 1)), "4x10"));
  BOOST_TEST(contains(error_of(builder.batch_norm()), "4x10"));
  need(builder.linear(9));
  BOOST_TEST(contains(error_of(builder.attention(1, 1, 100.0F)), "even size, not of 3"));
  BOOST_TEST(contains(error_of(builder.swiglu()), "even number of features"));
  BOOST_TEST(contains(error_of(builder.tied_linear()), "4x9"));
  need(builder.linear(10));
  need(builder.tied_linear());
  need(builder.linear(10));
  BOOST_TEST(contains(error_of(builder.tied_linear()), "layers.3 shares"));
  GraphBuilder floats = need(GraphBuilder::start({4, 9}));
  BOOST_TEST(contains(error_of(floats.embedding(3)), "not tokens"));
  BOOST_TEST(!floats.tied_linear());
  BOOST_TEST(contains(error_of(floats.dropout(1.0F)), "below 1"));
}

BOOST_AUTO_TEST_CASE(branches_start_where_sought_and_add_up_where_shapes_are_equal) {
  GraphBuilder builder = need(GraphBuilder::start({6}));
  need(builder.linear(4));
  const ValueId first = builder.value();
  need(builder.relu());
  need(builder.linear(4));
  need(builder.add(first));
  BOOST_TEST(contains(error_of(builder.add(kGraphInput)), "the two branches give 4 and 6"));
  builder.seek(kGraphInput);
  BOOST_TEST(to_string(builder.shape()) == "6");
  need(builder.linear(4));
  need(builder.add(3));
  const Graph graph = need(std::move(builder).finish(4));
  BOOST_TEST(graph.ops[3].inputs == (std::vector<ValueId>{2, 0}), boost::test_tools::per_element());
  BOOST_TEST(graph.ops[4].inputs == std::vector<ValueId>{kGraphInput},
             boost::test_tools::per_element());
  BOOST_TEST(graph.ops[5].inputs == (std::vector<ValueId>{4, 3}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_result_that_nothing_takes_is_refused_by_its_layers_name) {
  GraphBuilder builder = need(GraphBuilder::start({6}));
  need(builder.linear(4));
  builder.name_next("lost");
  need(builder.linear(5));
  builder.seek(0);
  need(builder.linear(3));
  const auto finished = std::move(builder).finish(3);
  BOOST_REQUIRE(!finished);
  BOOST_TEST(contains(finished.error().text, "lost"));
}

BOOST_AUTO_TEST_CASE(targets_of_any_shape_are_for_mean_squares) {
  GraphBuilder builder = need(GraphBuilder::start({2, 4, 4}));
  need(builder.conv2d({.out_channels = 3, .kernel = 2}));
  const Graph graph = need(std::move(builder).finish_mean_squared());
  BOOST_TEST((graph.loss.kind == LossKind::mean_squared));
  BOOST_TEST(graph.outputs() == 27U);
  BOOST_TEST(graph.classes == 0U);
}

BOOST_AUTO_TEST_SUITE_END()
