#include "peer/buffers.hpp"

#include <boost/test/unit_test.hpp>

#include "world.hpp"

using namespace starling;
using namespace starling::peer;

BOOST_AUTO_TEST_SUITE(buffers)

BOOST_AUTO_TEST_CASE(means_may_be_anything_finite_and_variances_not_below_zero) {
  const peer::testing::Problem problem(1, true);
  const compute::Graph& graph = problem.model.graph;
  BOOST_REQUIRE(graph.buffers.size() == 2U);
  const exchange::BufferSpec spec = buffer_spec(graph, problem.model.initial_buffers());
  BOOST_TEST((spec.initial == problem.model.initial_buffers()));
  BOOST_REQUIRE(spec.least.size() == spec.initial.size());
  for (const compute::Tensor& tensor : graph.buffers) {
    const bool variance = tensor.kind == compute::TensorKind::running_variance;
    for (std::size_t i = tensor.offset; i < tensor.offset + tensor.size; ++i) {
      BOOST_TEST(spec.least[i] == (variance ? 0.0F : -1e30F), tensor.name);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
