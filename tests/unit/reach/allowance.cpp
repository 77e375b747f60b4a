#include "reach/allowance.hpp"

#include <boost/test/unit_test.hpp>

using namespace std::chrono_literals;
namespace base = starling::base;

BOOST_AUTO_TEST_CASE(an_allowance_gives_a_few_at_once_and_so_many_a_second) {
  starling::reach::Allowance allowance(0.5, 2);
  const base::Time start{100s};
  BOOST_TEST(allowance.take(start));
  BOOST_TEST(allowance.take(start));
  BOOST_TEST(!allowance.take(start));
  BOOST_TEST(!allowance.take(start + 1s));
  BOOST_TEST(allowance.take(start + 2s));
  BOOST_TEST(!allowance.take(start + 3s));
}
