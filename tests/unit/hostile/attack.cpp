#include "hostile/attack.hpp"

#include <boost/test/unit_test.hpp>

using namespace starling::hostile;

BOOST_AUTO_TEST_SUITE(attack)

BOOST_AUTO_TEST_CASE(a_name_alone_has_the_usual_factor) {
  for (const AttackTraits& traits : kAttacks) {
    const auto read = parse_attack(traits.name);
    BOOST_REQUIRE(read.has_value());
    BOOST_TEST((read->kind == traits.kind));
    if (traits.has_factor()) BOOST_TEST(read->factor == traits.factor);
  }
}

BOOST_AUTO_TEST_CASE(a_factor_follows_a_colon) {
  const auto read = parse_attack("scale:1.1");
  BOOST_REQUIRE(read.has_value());
  BOOST_TEST((read->kind == AttackKind::scale));
  BOOST_TEST(read->factor == 1.1);
}

BOOST_AUTO_TEST_CASE(what_is_no_attack_is_refused) {
  for (const char* text : {"", "flip", "scale:", "scale:x", "scale:-1", "scale:nan", "scale:1e31",
                           "zeros:1", "counter_down:2"}) {
    BOOST_TEST(!parse_attack(text).has_value(), text);
  }
}

BOOST_AUTO_TEST_SUITE_END()
