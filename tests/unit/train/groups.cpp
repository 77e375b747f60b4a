#include "train/groups.hpp"

#include <vector>

#include <boost/test/unit_test.hpp>

using namespace starling;
using namespace starling::train;
using compute::Graph;
using compute::GraphBuilder;

namespace {

GraphBuilder builder(base::Result<GraphBuilder> started) {
  if (!started) BOOST_FAIL(started.error().text);
  return std::move(*started);
}

void add(const base::Status& status) {
  if (!status) BOOST_FAIL(status.error().text);
}

Graph finished(GraphBuilder builder, std::uint32_t classes) {
  auto graph = std::move(builder).finish(classes);
  if (!graph) BOOST_FAIL(graph.error().text);
  return std::move(*graph);
}

/// A convolution in two groups, a norm, two linear layers: 288 + 8 + 8 + 8 + 512 + 16 + 48 + 3.
Graph images() {
  GraphBuilder made = builder(GraphBuilder::start({8, 4, 4}));
  add(made.conv2d({.out_channels = 8, .kernel = 3, .groups = 2}));
  add(made.batch_norm());
  add(made.relu());
  add(made.linear(16));
  add(made.relu());
  add(made.linear(3));
  return finished(std::move(made), 3);
}

/// A block of a small GPT with two heads of 4 that share a key and value head, and a tied output.
Graph tokens() {
  GraphBuilder made = builder(GraphBuilder::start_tokens(6, 10));
  add(made.embedding(8));
  add(made.positions());
  const compute::ValueId residual = made.value();
  add(made.layer_norm());
  add(made.linear(16, {.bias = false}));
  add(made.attention(2, 1));
  add(made.linear(8, {.bias = false}));
  add(made.add(residual));
  add(made.linear(24));
  add(made.swiglu());
  add(made.linear(8));
  add(made.tied_linear());
  return finished(std::move(made), 10);
}

}  // namespace

namespace starling::train {
std::ostream& operator<<(std::ostream& out, const Group& g) {
  return out << "{rule " << static_cast<int>(g.rule) << (g.decays ? ", decays, " : ", ") << g.offset
             << " + " << g.size << "}";
}
std::ostream& operator<<(std::ostream& out, const Matrix& m) {
  return out << "{tensor " << m.tensor << ": " << m.offset << ", " << m.rows << " x " << m.cols
             << "}";
}
}  // namespace starling::train

BOOST_AUTO_TEST_SUITE(groups)

BOOST_AUTO_TEST_CASE(without_decay_sgd_and_adamw_have_one_group) {
  const Graph graph = images();
  for (const Optimizer kind : {Optimizer::sgd, Optimizer::adamw}) {
    const std::vector<Group> expected{{kind, false, 0, graph.parameter_count}};
    BOOST_TEST(make_groups(graph, {.optimizer = kind}) == expected,
               boost::test_tools::per_element());
  }
}

BOOST_AUTO_TEST_CASE(decay_leaves_biases_and_norms_alone) {
  const Graph graph = images();
  constexpr auto kSgd = Optimizer::sgd;
  const std::vector<Group> expected{{kSgd, true, 0, 288},   {kSgd, false, 288, 24},
                                    {kSgd, true, 312, 512}, {kSgd, false, 824, 16},
                                    {kSgd, true, 840, 48},  {kSgd, false, 888, 3}};
  BOOST_TEST(make_groups(graph, {.weight_decay = 0.1}) == expected,
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(decay_applies_to_embeddings) {
  const std::vector<Group> groups =
      make_groups(tokens(), {.optimizer = Optimizer::adamw, .weight_decay = 0.1});
  BOOST_TEST(groups[0] == (Group{Optimizer::adamw, true, 0, 80 + 48}));
  BOOST_TEST(groups[1] == (Group{Optimizer::adamw, false, 128, 16}));
}

BOOST_AUTO_TEST_CASE(muon_takes_the_hidden_matrices_of_images) {
  const Graph graph = images();
  const std::vector<Matrix> expected{{0, 0, 4, 36}, {0, 144, 4, 36}, {4, 312, 16, 32}};
  BOOST_TEST(hidden_matrices(graph) == expected, boost::test_tools::per_element());
  const std::vector<Group> groups{{Optimizer::muon, false, 0, 288},
                                  {Optimizer::adamw, false, 288, 24},
                                  {Optimizer::muon, false, 312, 512},
                                  {Optimizer::adamw, false, 824, 67}};
  BOOST_TEST(make_groups(graph, {.optimizer = Optimizer::muon}) == groups,
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(what_one_layer_does_for_several_purposes_is_several_matrices) {
  const Graph graph = tokens();
  const std::size_t qkv = 80 + 48 + 16;
  const std::vector<Matrix> expected{
      {4, qkv, 8, 8},        {4, qkv + 64, 4, 8},   {4, qkv + 96, 4, 8},  {5, qkv + 128, 8, 8},
      {6, qkv + 192, 12, 8}, {6, qkv + 288, 12, 8}, {8, qkv + 408, 8, 12}};
  BOOST_TEST(hidden_matrices(graph) == expected, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_network_of_one_layer_has_no_hidden_matrix) {
  GraphBuilder made = builder(GraphBuilder::start({8}));
  add(made.linear(3));
  const Graph graph = finished(std::move(made), 3);
  BOOST_TEST(hidden_matrices(graph).empty());
  BOOST_TEST(make_groups(graph, {.optimizer = Optimizer::muon}).size() == 1U);
}

BOOST_AUTO_TEST_SUITE_END()
