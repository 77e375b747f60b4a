#include "base/printable.hpp"

#include <boost/test/unit_test.hpp>

using namespace starling::base;

BOOST_AUTO_TEST_SUITE(printable_text)

BOOST_AUTO_TEST_CASE(text_of_others_cannot_control_a_terminal) {
  BOOST_TEST(printable("a\x1b[2Jb\n\t\x7f\x9b", 100) == "a?[2Jb????");
}

BOOST_AUTO_TEST_CASE(what_is_cut_says_so_within_the_length) {
  BOOST_TEST(printable("abcdef", 6) == "abcdef");
  BOOST_TEST(printable("abcdefg", 6) == "abc...");
  BOOST_TEST(printable("abcdef", 2) == "..");
  BOOST_TEST(printable("abcdef", 0).empty());
}

BOOST_AUTO_TEST_SUITE_END()
