#include "report/format.hpp"

#include <cmath>

#include <boost/test/unit_test.hpp>

using namespace starling::report;

BOOST_AUTO_TEST_SUITE(format)

BOOST_AUTO_TEST_CASE(bytes_have_three_digits_and_the_next_unit_where_they_would_have_four) {
  BOOST_TEST(format_bytes(0) == "0 B");
  BOOST_TEST(format_bytes(999) == "999 B");
  BOOST_TEST(format_bytes(1000) == "1.00 kB");
  BOOST_TEST(format_bytes(1'770'000) == "1.77 MB");
  BOOST_TEST(format_bytes(99'960) == "100 kB");
  BOOST_TEST(format_bytes(999'600) == "1.00 MB");
  BOOST_TEST(format_bytes(2'247'000'000) == "2.25 GB");
  BOOST_TEST(format_bytes(~std::uint64_t{0}) == "18.4 EB");
}

BOOST_AUTO_TEST_CASE(counts_have_separators_every_three_digits) {
  BOOST_TEST(format_count(0) == "0");
  BOOST_TEST(format_count(999) == "999");
  BOOST_TEST(format_count(1000) == "1,000");
  BOOST_TEST(format_count(123456) == "123,456");
  BOOST_TEST(format_count(1234567) == "1,234,567");
}

BOOST_AUTO_TEST_CASE(percentages_are_of_a_fraction) {
  BOOST_TEST(format_percent(0.875) == "87.5%");
  BOOST_TEST(format_percent(0.00512, 2) == "0.51%");
  BOOST_TEST(format_percent(std::nan("")) == "-");
}

BOOST_AUTO_TEST_CASE(durations_never_show_sixty_of_a_unit) {
  BOOST_TEST(format_duration(0) == "0.0 s");
  BOOST_TEST(format_duration(59.94) == "59.9 s");
  BOOST_TEST(format_duration(59.96) == "1 min 00 s");
  BOOST_TEST(format_duration(123.4) == "2 min 03 s");
  BOOST_TEST(format_duration(3599.7) == "1 h 00 min");
  BOOST_TEST(format_duration(3600 * 2 + 60 * 5) == "2 h 05 min");
}

BOOST_AUTO_TEST_CASE(durations_that_are_none_are_a_dash) {
  BOOST_TEST(format_duration(-1) == "-");
  BOOST_TEST(format_duration(std::nan("")) == "-");
  BOOST_TEST(format_duration(INFINITY) == "-");
}

BOOST_AUTO_TEST_SUITE_END()
