#include "io/ucx/versions.hpp"

#include <boost/test/unit_test.hpp>

using namespace starling::io::ucx;

BOOST_AUTO_TEST_SUITE(ucx_versions)

BOOST_AUTO_TEST_CASE(old_releases_link_with_their_like_alone) {
  const Version debian{1, 13, 1};
  BOOST_TEST(compatible(debian, {1, 13, 0}));
  for (const unsigned minor : {12U, 14U, 15U, 18U, 22U}) {
    BOOST_TEST(!compatible(debian, {1, minor, 0}));
    BOOST_TEST(!compatible({1, minor, 0}, debian));
  }
  BOOST_TEST(!compatible({1, 14, 0}, {1, 15, 0}));
}

BOOST_AUTO_TEST_CASE(releases_from_1_15_on_link_with_each_other) {
  for (const unsigned a : {15U, 16U, 18U, 22U}) {
    for (const unsigned b : {15U, 16U, 18U, 22U}) BOOST_TEST(compatible({1, a, 0}, {1, b, 1}));
  }
  BOOST_TEST(compatible({2, 0, 0}, {1, 15, 0}));
}

BOOST_AUTO_TEST_CASE(ipv6_is_for_releases_that_are_clean_with_it) {
  BOOST_TEST(!takes_ipv6({1, 13, 1}));
  BOOST_TEST(takes_ipv6({1, 22, 0}));
}

BOOST_AUTO_TEST_SUITE_END()
