#include "peer/buffers.hpp"

#include <limits>

#include <boost/test/unit_test.hpp>

#include "world.hpp"

using namespace starling;
using namespace starling::peer;

BOOST_AUTO_TEST_SUITE(buffers)

BOOST_AUTO_TEST_CASE(means_may_be_anything_finite_and_variances_not_below_zero) {
  const testing::Problem problem(1, true);
  const compute::Graph& graph = problem.model.graph;
  BOOST_REQUIRE(graph.buffers.size() == 2U);
  for (const compute::Tensor& tensor : graph.buffers) {
    const bool variance = tensor.kind == compute::TensorKind::running_variance;
    const auto accepts = [&](float value) {
      std::vector<float> values = problem.model.initial_buffers();
      values[tensor.offset + tensor.size - 1] = value;
      const auto spec = buffer_spec(graph, values);
      if (!spec) BOOST_TEST(spec.error().text.find(tensor.name) != std::string::npos);
      return spec.has_value() && spec->initial == values;
    };
    BOOST_TEST_CONTEXT(tensor.name) {
      BOOST_TEST(accepts(0.0F));
      BOOST_TEST(accepts(7.0F));
      BOOST_TEST(accepts(-0.5F) == !variance);
      BOOST_TEST(!accepts(2e30F));
      BOOST_TEST(!accepts(std::numeric_limits<float>::quiet_NaN()));
      BOOST_TEST(!accepts(std::numeric_limits<float>::infinity()));
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
