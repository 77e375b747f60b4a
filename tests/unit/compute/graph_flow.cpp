#include "compute/graph_flow.hpp"

#include <utility>

#include <boost/test/unit_test.hpp>

#include "networks.hpp"

namespace starling::compute {
namespace {

using testing::need;

// relu(x), conv, relu, conv + the first conv's relu, relu, linear.
Graph residual() {
  GraphBuilder builder = need(GraphBuilder::start({2, 4, 4}));
  const Conv2dOptions conv{.out_channels = 2, .kernel = 3, .padding = 1};
  need(builder.relu());
  need(builder.conv2d(conv));
  need(builder.relu());
  const ValueId short_cut = builder.value();
  need(builder.conv2d(conv));
  need(builder.add(short_cut));
  need(builder.relu());
  need(builder.linear(3));
  return need(std::move(builder).finish(3));
}

BOOST_AUTO_TEST_CASE(gradients_are_needed_behind_the_first_parameters) {
  const Graph graph = residual();
  const GraphFlow flow(graph);
  BOOST_TEST(!flow.needs_gradient(kGraphInput));
  BOOST_TEST(!flow.needs_gradient(0));
  for (std::size_t op = 1; op < graph.ops.size(); ++op) BOOST_TEST(flow.needs_gradient(op));
}

BOOST_AUTO_TEST_CASE(a_short_cut_and_the_loss_are_uses) {
  const Graph graph = residual();
  const GraphFlow flow(graph);
  BOOST_TEST(flow.uses(1) == 1U);
  BOOST_TEST(flow.uses(2) == 2U);
  BOOST_TEST(flow.uses(graph.ops.size() - 1) == 1U);
}

BOOST_AUTO_TEST_CASE(an_op_does_the_relu_that_alone_takes_its_result) {
  const Graph graph = residual();
  const GraphFlow flow(graph);
  BOOST_TEST(flow.is_relu(0));
  BOOST_TEST(flow.does_relu(1));
  BOOST_TEST(!flow.does_relu(2));  // a ReLU itself, and taken twice
  BOOST_TEST(!flow.does_relu(3));  // the sum comes first
  BOOST_TEST(flow.does_relu(4));
  BOOST_TEST(!flow.does_relu(6));
  BOOST_TEST(!flow.is_relu(graph.ops.size()));
}

BOOST_AUTO_TEST_CASE(a_result_that_others_take_keeps_its_sign) {
  GraphBuilder builder = need(GraphBuilder::start({4}));
  need(builder.linear(4));
  const ValueId before = builder.value();
  need(builder.relu());
  need(builder.add(before));
  const Graph graph = need(std::move(builder).finish_mean_squared());
  BOOST_TEST(!GraphFlow(graph).does_relu(before));
}

}  // namespace
}  // namespace starling::compute
