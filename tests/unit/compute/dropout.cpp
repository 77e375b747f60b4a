#include "compute/dropout.hpp"

#include <cstdint>
#include <set>

#include <boost/test/unit_test.hpp>

using namespace starling::compute;

BOOST_AUTO_TEST_SUITE(dropout)

BOOST_AUTO_TEST_CASE(bits_are_fixed_for_all_time) {
  BOOST_TEST(dropout_bits(0, 0, 1) == 0xe220a839U);  // splitmix64's first number of seed 0
  BOOST_TEST(dropout_bits(1, 2, 3) == 0x503d2904U);
}

BOOST_AUTO_TEST_CASE(a_rate_drops_that_share_and_zero_drops_nothing) {
  for (const float rate : {0.1F, 0.5F}) {
    std::uint64_t dropped = 0;
    for (std::uint64_t i = 0; i < 100'000; ++i) {
      dropped += dropout_bits(9, 4, i) < dropout_threshold(rate) ? 1 : 0;
    }
    // Five standard deviations of 100,000 draws are below 0.8%.
    BOOST_TEST(dropped > 100'000.0 * (static_cast<double>(rate) - 0.008));
    BOOST_TEST(dropped < 100'000.0 * (static_cast<double>(rate) + 0.008));
  }
  BOOST_TEST(dropout_threshold(0.0F) == 0U);
}

BOOST_AUTO_TEST_CASE(steps_layers_and_elements_have_bits_of_their_own) {
  std::set<std::uint32_t> seen;
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    for (std::uint64_t op = 0; op < 10; ++op) {
      for (std::uint64_t i = 0; i < 10; ++i) seen.insert(dropout_bits(seed, op, i));
    }
  }
  BOOST_TEST(seen.size() == 1000U);
}

BOOST_AUTO_TEST_SUITE_END()
