#include "peer/step_pace.hpp"

#include <boost/test/unit_test.hpp>

using namespace starling;
using namespace std::chrono_literals;
using peer::StepPace;

namespace {

constexpr base::Time kPaceBegin{100s};
constexpr std::uint32_t kPaceBatch = 16;

}  // namespace

BOOST_AUTO_TEST_SUITE(step_pace)

BOOST_AUTO_TEST_CASE(without_a_limit_every_step_goes_at_once) {
  StepPace pace(base::Duration{}, kPaceBatch);
  for (int i = 0; i < 10; ++i) BOOST_TEST(pace.take(kPaceBatch, kPaceBegin));
  BOOST_TEST(!pace.next());
}

BOOST_AUTO_TEST_CASE(the_next_step_goes_an_interval_after_the_last) {
  StepPace pace(100ms, kPaceBatch);
  BOOST_TEST(!pace.next());
  BOOST_TEST(pace.take(kPaceBatch, kPaceBegin));
  BOOST_TEST((pace.next() == kPaceBegin + 100ms));
  BOOST_TEST(!pace.take(kPaceBatch, kPaceBegin + 99ms));
  BOOST_TEST(pace.take(kPaceBatch, kPaceBegin + 100ms));
  BOOST_TEST((pace.next() == kPaceBegin + 200ms));
}

BOOST_AUTO_TEST_CASE(a_part_of_a_batch_takes_that_part_of_the_interval) {
  StepPace pace(100ms, kPaceBatch);
  BOOST_TEST(pace.take(kPaceBatch / 4, kPaceBegin));
  BOOST_TEST((pace.next() == kPaceBegin + 25ms));
}

BOOST_AUTO_TEST_CASE(a_late_timer_is_made_up_for_by_one_step_and_a_pause_by_no_more) {
  StepPace pace(100ms, kPaceBatch);
  BOOST_TEST(pace.take(kPaceBatch, kPaceBegin));
  BOOST_TEST(pace.take(kPaceBatch, kPaceBegin + 130ms));
  BOOST_TEST((pace.next() == kPaceBegin + 200ms));
  const base::Time later = kPaceBegin + 10s;
  BOOST_TEST(pace.take(kPaceBatch, later));
  BOOST_TEST(pace.take(kPaceBatch, later));
  BOOST_TEST(!pace.take(kPaceBatch, later));
  BOOST_TEST((pace.next() == later + 100ms));
}

BOOST_AUTO_TEST_SUITE_END()
