#include "report/language.hpp"

#include <cmath>

#include <boost/test/unit_test.hpp>

using namespace starling::report;
using boost::test_tools::tolerance;

BOOST_AUTO_TEST_SUITE(language)

BOOST_AUTO_TEST_CASE(a_guess_among_all_bytes_has_perplexity_256_and_8_bits) {
  const auto quality = language_quality(std::log(256.0), 1);
  BOOST_TEST_REQUIRE(quality.has_value());
  BOOST_TEST(quality->perplexity == 256.0, tolerance(1e-12));
  BOOST_TEST(quality->bits_per_byte == 8.0, tolerance(1e-12));
}

BOOST_AUTO_TEST_CASE(bits_are_shared_by_the_bytes_of_a_token) {
  BOOST_TEST(language_quality(std::log(256.0), 4)->bits_per_byte == 2.0, tolerance(1e-12));
  BOOST_TEST(language_quality(std::log(256.0), 4)->perplexity == 256.0, tolerance(1e-12));
}

BOOST_AUTO_TEST_CASE(other_data_has_no_such_quality) {
  BOOST_TEST(!language_quality(1.0, 0).has_value());
  BOOST_TEST(!language_quality(std::nullopt, 1).has_value());
}

BOOST_AUTO_TEST_SUITE_END()
