#include "exchange/weight.hpp"

#include <cmath>

#include <boost/test/unit_test.hpp>

using namespace starling;
using exchange::end_parts;
using exchange::kWeightApartMax;
using exchange::weight_of;
using wire::kNoWeight;

BOOST_AUTO_TEST_SUITE(weight)

BOOST_AUTO_TEST_CASE(equal_weights_move_both_ends_by_the_whole_step) {
  for (const int exponent : {-63, -1, 0, 7, 63}) {
    const auto weight = static_cast<std::int8_t>(exponent);
    BOOST_TEST((end_parts(weight, weight) == delta::EndParts{}));
  }
}

BOOST_AUTO_TEST_CASE(the_lighter_end_moves_by_the_whole_step_and_the_heavier_by_its_part) {
  const auto parts = end_parts(0, -3);
  BOOST_TEST(parts.own == 0.125F);
  BOOST_TEST(parts.their == 1.0F);
  BOOST_TEST(parts.own_share == 2.0F / 1.125F);
  BOOST_TEST(parts.their_share == 2.0F / 9.0F);
}

BOOST_AUTO_TEST_CASE(both_ends_come_to_the_same_parts) {
  for (int own = kNoWeight; own <= wire::kWeightMax; ++own) {
    for (int their = kNoWeight; their <= wire::kWeightMax; ++their) {
      const auto here = end_parts(static_cast<std::int8_t>(own), static_cast<std::int8_t>(their));
      const auto there = end_parts(static_cast<std::int8_t>(their), static_cast<std::int8_t>(own));
      BOOST_REQUIRE(here.own == there.their);
      BOOST_REQUIRE(here.their == there.own);
      BOOST_REQUIRE(here.own_share == there.their_share);
      BOOST_REQUIRE(here.their_share == there.own_share);
    }
  }
}

BOOST_AUTO_TEST_CASE(weights_times_steps_cancel_exactly) {
  const float step = 0.1F;
  for (int own = -5; own <= 5; ++own) {
    for (int their = -5; their <= 5; ++their) {
      const auto parts = end_parts(static_cast<std::int8_t>(own), static_cast<std::int8_t>(their));
      BOOST_REQUIRE(
          weight_of(static_cast<std::int8_t>(own)) * static_cast<double>(parts.own * step) ==
          weight_of(static_cast<std::int8_t>(their)) * static_cast<double>(parts.their * step));
    }
  }
}

BOOST_AUTO_TEST_CASE(a_peer_without_weight_follows_and_moves_nobody) {
  const auto parts = end_parts(kNoWeight, -40);
  BOOST_TEST(parts.own == 1.0F);
  BOOST_TEST(parts.their == 0.0F);
  BOOST_TEST(parts.own_share == 0.0F);
  BOOST_TEST(parts.their_share == 2.0F);
  const auto neither = end_parts(kNoWeight, kNoWeight);
  BOOST_TEST(neither.own == 0.0F);
  BOOST_TEST(neither.their == 0.0F);
}

BOOST_AUTO_TEST_CASE(the_heavier_end_weighs_what_the_lighter_one_believes_or_as_much_as_that_one) {
  const auto heavy = [](std::int8_t weight, std::int8_t light, std::int8_t believed) {
    return int{believed_weight({.weight = weight}, {.weight = light, .believed = believed})};
  };
  BOOST_TEST(heavy(9, 3, 5) == 5);
  BOOST_TEST(heavy(9, 3, -20) == 3);
  BOOST_TEST(heavy(4, 3, 5) == 4);
  BOOST_TEST(heavy(2, 3, -20) == 2);
  BOOST_TEST(heavy(9, kNoWeight, wire::kWeightMax) == 9);
  BOOST_TEST(heavy(kNoWeight, 3, 5) == int{kNoWeight});
}

BOOST_AUTO_TEST_CASE(a_neighbour_may_weigh_what_the_samples_say_that_it_is_vouched_for) {
  VouchedRate rate;
  base::Time now{};
  rate.add(1000, now);
  BOOST_TEST(!rate.weight_max());
  rate.add(1050, now += 500ms);  // 100 a second
  BOOST_TEST(int{rate.weight_max().value()} == 7);
  rate.add(9000, now += 400ms);  // too early to tell
  BOOST_TEST(int{rate.weight_max().value()} == 7);
  rate.add(1450, now += 600ms);  // 400 a second
  BOOST_TEST(int{rate.weight_max().value()} == 9);
  rate.add(1450, now += VouchedRate::kSpanMax);
  BOOST_TEST(rate.weight_max().value() < 0);
  // Of what it said itself, others vouch for less.
  rate.add(1200, now += VouchedRate::kSpanMax);
  rate.add(1200 + 4 * 64, now += VouchedRate::kSpanMax);
  BOOST_TEST(int{rate.weight_max().value()} == 6);
}

BOOST_AUTO_TEST_CASE(weights_that_are_far_apart_count_as_if_they_were_not) {
  BOOST_TEST((end_parts(0, 50) == end_parts(0, kWeightApartMax)));
  BOOST_TEST((end_parts(50, 0) == end_parts(kWeightApartMax, 0)));
  BOOST_TEST(end_parts(50, 0).own == std::ldexp(1.0F, -kWeightApartMax));
}

BOOST_AUTO_TEST_SUITE_END()
