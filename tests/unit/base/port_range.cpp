#include "base/port_range.hpp"

#include <boost/test/unit_test.hpp>

using namespace starling::base;

BOOST_AUTO_TEST_SUITE(port_range)

BOOST_AUTO_TEST_CASE(two_numbers_are_a_range_and_nothing_is_any_port) {
  const PortRange range = parse_port_range("47000-47015", 2).value();
  BOOST_TEST(range.first == 47000);
  BOOST_TEST(range.last == 47015);
  BOOST_TEST(!range.any());
  BOOST_TEST(range.has(47015));
  BOOST_TEST(!range.has(47016));
  const PortRange any = parse_port_range("", 2).value();
  BOOST_TEST(any.any());
  BOOST_TEST(any.has(1));
}

BOOST_AUTO_TEST_CASE(what_is_no_range_says_what_would_be_one) {
  for (const char* text : {"47000", "47000-", "-47000", "a-b", "47000-47015-47020", "47000 - 47015",
                           "0-10", "1023-2000", "60000-65536", "47015-47000", "-"}) {
    BOOST_TEST_CONTEXT(text) {
      const auto range = parse_port_range(text, 2);
      BOOST_REQUIRE(!range.has_value());
      BOOST_TEST(range.error().text.find("is not a range of ports") != std::string::npos);
    }
  }
  BOOST_TEST(parse_port_range("47000-47000", 2).error().text ==
             "\"47000-47000\" is too small: it must have 2 ports or more");
  BOOST_TEST(parse_port_range("47000-47000", 1).has_value());
}

BOOST_AUTO_TEST_SUITE_END()
