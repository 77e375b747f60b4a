#include "sim/agenda.hpp"

#include <variant>

#include <boost/test/unit_test.hpp>

#include "sim/node.hpp"

using namespace starling;
using namespace starling::sim;
using std::chrono::seconds;

BOOST_AUTO_TEST_SUITE(agenda)

BOOST_AUTO_TEST_CASE(happenings_of_one_moment_come_in_the_order_in_which_they_were_planned) {
  Agenda agenda(kStart + seconds(10));
  agenda.after(seconds(2), Planned{2, true});
  agenda.after(seconds(1), Planned{0, true});
  agenda.after(seconds(1), Planned{1, true});
  for (const std::size_t expected : {0, 1, 2}) {
    const auto next = agenda.next();
    BOOST_REQUIRE(next);
    BOOST_TEST(std::get<Planned>(*next).event == expected);
  }
  BOOST_TEST(agenda.seconds() == 2);
  agenda.at(kStart, Second{});  // has passed: now
  BOOST_TEST(agenda.next().has_value());
  BOOST_TEST(agenda.seconds() == 2);
}

BOOST_AUTO_TEST_CASE(nothing_happens_after_the_end_or_once_it_was_stopped) {
  Agenda agenda(kStart + seconds(10));
  agenda.after(seconds(11), Second{});
  BOOST_TEST(!agenda.next());
  BOOST_TEST(agenda.seconds() == 10);
  Agenda stopped(kStart + seconds(10));
  stopped.after(seconds(1), Second{});
  stopped.stop();
  BOOST_TEST(!stopped.next());
  BOOST_TEST(stopped.seconds() == 0);
}

BOOST_AUTO_TEST_CASE(a_fast_clock_shows_later_times_and_none_is_met_too_early) {
  MachineClock clock;
  const base::Time shown(seconds(500));
  clock.set(shown, kStart);
  clock.set_rate(2, kStart + seconds(10));
  BOOST_TEST((clock.at(kStart + seconds(15)) == shown + seconds(20)));
  const base::Time when = clock.when(shown + seconds(30), kStart + seconds(15));
  BOOST_TEST((when > kStart + seconds(20) && clock.at(when) >= shown + seconds(30)));
  BOOST_TEST((clock.when(shown, kStart + seconds(15)) == kStart + seconds(15)));
}

BOOST_AUTO_TEST_SUITE_END()
