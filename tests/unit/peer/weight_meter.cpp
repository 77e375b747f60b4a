#include "peer/weight_meter.hpp"

#include <string>

#include <boost/test/unit_test.hpp>

using namespace starling;
using namespace std::chrono_literals;
using membership::MemberTable;
using peer::WeightMeter;
using wire::kNoWeight;

namespace {

constexpr std::uint32_t kBatch = 16;

wire::MemberRecord member_of(std::uint8_t number, std::int8_t weight) {
  return {.id = {{number}},
          .name = "peer-" + std::to_string(number),
          .incarnation = 1,
          .weight = weight};
}

/// A meter, its clock, and the members that it sees.
struct Bench {
  explicit Bench(std::int8_t last = kNoWeight) : meter(last) {}

  void steps(int count, base::Duration interval) {
    for (int i = 0; i < count; ++i) {
      now += interval;
      meter.on_step(kBatch, members, now);
    }
  }
  void add(std::uint8_t number, std::int8_t weight) {
    (void)members.apply(member_of(number, weight));
  }

  MemberTable members{member_of(1, kNoWeight)};
  WeightMeter meter;
  base::Time now{100s};
};

}  // namespace

BOOST_AUTO_TEST_SUITE(weight_meter)

BOOST_AUTO_TEST_CASE(nothing_is_known_before_the_second_step) {
  Bench bench;
  BOOST_TEST(int{bench.meter.value()} == int{kNoWeight});
  bench.steps(1, 1s);
  BOOST_TEST(int{bench.meter.value()} == int{kNoWeight});
  bench.steps(1, 1s);
  BOOST_TEST(int{bench.meter.value()} == 4);  // 16 samples a second
}

BOOST_AUTO_TEST_CASE(a_weight_is_the_power_of_two_nearest_to_the_speed) {
  Bench bench;
  bench.steps(100, 125ms);
  BOOST_TEST(int{bench.meter.value()} == 7);
  Bench slow;
  slow.steps(3, 1000s);
  BOOST_TEST(int{slow.meter.value()} == -6);
}

BOOST_AUTO_TEST_CASE(a_speed_between_two_powers_keeps_the_weight_that_it_has) {
  for (const std::int8_t last : {std::int8_t{4}, std::int8_t{5}}) {
    Bench bench(last);
    bench.steps(100, 700ms);  // 2^4.5 samples a second
    BOOST_TEST(int{bench.meter.value()} == int{last});
  }
}

BOOST_AUTO_TEST_CASE(a_speed_between_two_powers_takes_the_weight_of_most_others) {
  for (const std::int8_t theirs : {std::int8_t{4}, std::int8_t{5}}) {
    Bench bench(static_cast<std::int8_t>(9 - theirs));
    bench.add(2, theirs);
    bench.add(3, theirs);
    bench.steps(100, 700ms);
    BOOST_TEST(int{bench.meter.value()} == int{theirs});
  }
}

// Else two would change places for ever.
BOOST_AUTO_TEST_CASE(two_peers_of_one_speed_come_to_one_weight) {
  Bench low(4);
  Bench high(5);
  low.add(2, 5);
  high.add(2, 4);
  low.steps(100, 700ms);
  high.steps(100, 700ms);
  BOOST_TEST(int{low.meter.value()} == 5);
  BOOST_TEST(int{high.meter.value()} == 5);
}

BOOST_AUTO_TEST_CASE(a_pause_is_no_slow_step_but_two_of_them_are) {
  Bench bench;
  bench.steps(100, 125ms);
  bench.steps(1, 1000s);
  bench.steps(40, 125ms);
  BOOST_TEST(int{bench.meter.value()} == 7);
  bench.steps(3, 1000s);
  BOOST_TEST(int{bench.meter.value()} == -6);
}

BOOST_AUTO_TEST_CASE(an_interruption_does_not_count) {
  Bench bench;
  bench.steps(100, 125ms);
  bench.meter.interrupt();
  bench.steps(1, 700ms);
  bench.steps(40, 125ms);
  BOOST_TEST(int{bench.meter.value()} == 7);
}

BOOST_AUTO_TEST_CASE(the_weight_of_a_former_life_stays_until_it_is_measured) {
  Bench bench(9);
  BOOST_TEST(int{bench.meter.value()} == 9);
  BOOST_TEST(int{WeightMeter(-128).value()} == int{kNoWeight});
}

BOOST_AUTO_TEST_SUITE_END()
