#include "io/arrival.hpp"

#include <chrono>

#include <boost/test/unit_test.hpp>

using namespace std::chrono_literals;
using starling::base::Duration;
using starling::base::Time;
using starling::io::Arrival;

BOOST_AUTO_TEST_SUITE(arrival)

BOOST_AUTO_TEST_CASE(what_comes_together_takes_no_time) {
  Arrival arrival;
  arrival.add(1000, Time(5s));
  BOOST_TEST((arrival.took(Time(5s)) == Duration{}));
}

BOOST_AUTO_TEST_CASE(the_first_part_counts_like_the_others) {
  Arrival arrival;
  arrival.add(1000, Time(5s));
  arrival.add(3000, Time(5s + 30ms));
  arrival.add(6000, Time(5s + 90ms));
  BOOST_TEST(starling::base::seconds(arrival.took(Time(5s + 90ms))) == 0.1,
             boost::test_tools::tolerance(1e-6));
}

BOOST_AUTO_TEST_SUITE_END()
