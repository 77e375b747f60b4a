#include "membership/progress.hpp"

#include <limits>

#include <boost/test/unit_test.hpp>

#include "membership/limits.hpp"

using namespace starling;
using namespace std::chrono_literals;
using membership::ProgressBook;
using wire::Progress;

namespace {

constexpr base::Time kStart{std::chrono::seconds(100)};

Progress entry(std::uint64_t prefix, std::uint64_t samples) {
  return {.id_prefix = prefix, .samples = samples};
}

void merge(ProgressBook& book, Progress progress, base::Time now, std::uint64_t from = 99) {
  book.merge(std::span(&progress, 1), from, now);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(progress)

BOOST_AUTO_TEST_CASE(counters_never_fall) {
  ProgressBook book(1);
  book.set_own(entry(1, 10), kStart);
  book.set_own(entry(1, 5), kStart);
  merge(book, entry(2, 100), kStart);
  merge(book, entry(2, 90), kStart);
  book.observe(2, 80, kStart);
  BOOST_TEST(book.total(kStart) == 110);
  book.observe(2, 120, kStart);
  BOOST_TEST(book.total(kStart) == 130);
}

BOOST_AUTO_TEST_CASE(others_cannot_set_our_counter_nor_an_absurd_one) {
  ProgressBook book(1);
  book.set_own(entry(1, 10), kStart);
  merge(book, entry(1, 1000), kStart);
  merge(book, entry(2, std::numeric_limits<std::uint64_t>::max()), kStart);
  BOOST_TEST(book.total(kStart) == 10);
}

BOOST_AUTO_TEST_CASE(a_silent_alive_peer_is_taken_further_for_two_seconds_at_its_rate) {
  ProgressBook book(1);
  for (int i = 0; i <= 10; ++i) {
    merge(book, entry(2, static_cast<std::uint64_t>(100 * i)), kStart + i * 1s);
  }
  const base::Time last = kStart + 10s;
  BOOST_TEST(book.rate(last) == 100, boost::test_tools::tolerance(1e-6));
  BOOST_TEST(book.total(last) == 1000);
  BOOST_TEST(book.total(last + 1s) == 1100);
  BOOST_TEST(book.total(last + 2s) == 1200);
  BOOST_TEST(book.total(last + 9s) == 1200);
  merge(book, entry(2, 1100), last + 9s);
  BOOST_TEST(book.total(last + 9s) == 1200);  // never falls
}

BOOST_AUTO_TEST_CASE(a_dead_peer_counts_but_is_not_taken_further) {
  ProgressBook book(1);
  for (int i = 0; i <= 10; ++i) {
    merge(book, entry(2, static_cast<std::uint64_t>(100 * i)), kStart + i * 1s);
  }
  book.set_alive(2, false);
  BOOST_TEST(book.total(kStart + 12s) == 1000);
  BOOST_TEST(book.rate(kStart + 10s) == 0);
}

BOOST_AUTO_TEST_CASE(a_heartbeat_carries_what_changed_and_not_what_its_receiver_told) {
  ProgressBook book(1);
  book.set_own(entry(1, 10), kStart);
  merge(book, entry(2, 20), kStart, 7);
  merge(book, entry(7, 30), kStart, 7);
  BOOST_TEST(book.entries_for_heartbeat(7).size() == 1);
  BOOST_TEST(book.entries_for_heartbeat(7).empty());
  BOOST_TEST(book.entries_for_heartbeat(8).size() == 3);
  book.set_own(entry(1, 11), kStart);
  BOOST_REQUIRE(book.entries_for_heartbeat(7).size() == 1);
  book.forget(8);
  BOOST_TEST(book.entries_for_heartbeat(8).size() == 3);
}

BOOST_AUTO_TEST_CASE(many_counters_go_in_several_heartbeats_and_are_bounded) {
  ProgressBook book(1);
  for (std::uint64_t prefix = 2; prefix < 2 + 2 * membership::kProgressMax; ++prefix) {
    merge(book, entry(prefix, 1), kStart);
  }
  BOOST_TEST(book.size() == membership::kProgressMax);
  std::size_t sent = 0;
  for (std::size_t i = 0; i < membership::kProgressMax / wire::kProgressPerFrame; ++i) {
    const auto entries = book.entries_for_heartbeat(7);
    BOOST_TEST(entries.size() <= wire::kProgressPerFrame);
    sent += entries.size();
  }
  BOOST_TEST(sent >= membership::kProgressMax - 1);  // all but the receiver's own
  BOOST_TEST(book.entries_for_heartbeat(7).empty());
}

BOOST_AUTO_TEST_CASE(reports_with_equal_counters_end_the_same_in_any_order) {
  Progress better = entry(2, 20);
  better.loss = 0.5F;
  Progress worse = entry(2, 20);
  worse.loss = 0.7F;
  for (const bool better_first : {true, false}) {
    ProgressBook book(1);
    merge(book, entry(2, 20), kStart);
    merge(book, better_first ? better : worse, kStart);
    merge(book, better_first ? worse : better, kStart);
    BOOST_TEST(book.find(2)->loss == 0.5F);
  }
}

BOOST_AUTO_TEST_SUITE_END()
