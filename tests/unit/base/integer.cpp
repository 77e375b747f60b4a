#include "base/integer.hpp"

#include <cstdint>
#include <limits>

#include <boost/test/unit_test.hpp>

using namespace starling::base;

BOOST_AUTO_TEST_SUITE(integer)

BOOST_AUTO_TEST_CASE(a_rest_takes_a_piece_of_its_own) {
  BOOST_TEST(ceil_div(0U, 4) == 0U);
  BOOST_TEST(ceil_div(8U, 4) == 2U);
  BOOST_TEST(ceil_div(9U, 4) == 3U);
  BOOST_TEST(round_up(9U, 4) == 12U);
  BOOST_TEST(round_up(12U, 4) == 12U);
}

BOOST_AUTO_TEST_CASE(the_largest_number_does_not_overflow) {
  constexpr std::uint32_t kLargest = std::numeric_limits<std::uint32_t>::max();
  BOOST_TEST(ceil_div(kLargest, 2) == kLargest / 2 + 1);
}

BOOST_AUTO_TEST_SUITE_END()
