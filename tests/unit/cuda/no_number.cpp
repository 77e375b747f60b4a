// Kernels on the processor, with values that are NaN or very large.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <boost/test/unit_test.hpp>

#include "cuda/kernels/elementwise.hpp"
#include "cuda/kernels/images.hpp"

using namespace starling::compute;
using namespace starling::compute::cuda;

BOOST_AUTO_TEST_SUITE(cuda_no_number)

BOOST_AUTO_TEST_CASE(what_is_no_number_comes_through_a_max_pool_wherever_it_lies) {
  const Window window{
      .height = 1, .width = 3, .out_height = 1, .out_width = 1, .kernel = 3, .stride = 1};
  for (std::size_t at = 0; at < 3; ++at) {
    std::vector<float> source{3, 1, 2};
    source[at] = std::nanf("");
    float result = 0;
    std::int32_t chosen = -1;
    MaxPoolForward{window, {source.data()}, {.exact = &result}, &chosen}(0);
    BOOST_TEST(std::isnan(result));
    BOOST_TEST(chosen == static_cast<std::int32_t>(at));
  }
}

BOOST_AUTO_TEST_CASE(slopes_of_activations_stay_in_bounds_however_large_the_values) {
  for (const auto kind : {ActivationKind::relu, ActivationKind::gelu, ActivationKind::gelu_tanh,
                          ActivationKind::silu}) {
    BOOST_TEST_CONTEXT("activation " << static_cast<int>(kind)) {
      for (const float x : {-1e30F, -1e6F, -60.0F, -20.0F, 20.0F, 60.0F, 1e6F, 1e30F}) {
        BOOST_TEST(std::abs(slope(kind, x) - (x > 0 ? 1.0F : 0.0F)) < 1e-4F, x);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(the_slope_of_what_is_no_number_is_none) {
  for (const auto kind : {ActivationKind::gelu, ActivationKind::gelu_tanh, ActivationKind::silu}) {
    BOOST_TEST(std::isnan(slope(kind, std::nanf(""))));
  }
}

BOOST_AUTO_TEST_SUITE_END()
