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

BOOST_AUTO_TEST_CASE(parts_of_a_frame_that_takes_long_are_told_now_and_then) {
  Arrival arrival;
  arrival.add(4000, Time(5s));
  BOOST_TEST(arrival.take_part(Time(5s)) == 0U);
  arrival.add(1000, Time(5s + 99ms));
  BOOST_TEST(arrival.take_part(Time(5s + 99ms)) == 0U);
  arrival.add(1000, Time(5s + 100ms));
  BOOST_TEST(arrival.take_part(Time(5s + 100ms)) == 6000U);
  arrival.add(1023, Time(9s));  // too little to say that anything comes
  BOOST_TEST(arrival.take_part(Time(9s)) == 0U);
  arrival.add(1, Time(9s));
  BOOST_TEST(arrival.take_part(Time(9s)) == 1024U);
}

BOOST_AUTO_TEST_SUITE_END()
