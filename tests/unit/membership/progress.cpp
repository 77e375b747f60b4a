#include "membership/progress.hpp"

#include <limits>

#include <boost/test/unit_test.hpp>

#include "base/rng.hpp"
#include "membership/limits.hpp"
#include "table.hpp"

using namespace starling;
using namespace std::chrono_literals;
using membership::testing::Table;
using membership::testing::voucher;
using wire::Progress;

namespace {

constexpr base::Time kStart{std::chrono::seconds(100)};

Progress entry(std::uint64_t prefix, std::uint64_t samples, float rate = 0) {
  return {.id_prefix = prefix, .samples = samples, .rate = rate};
}

/// With what it has and will have soon vouched for.
void merge(Table& table, Progress progress, base::Time now, std::uint64_t from = 99) {
  const auto soon = static_cast<std::uint64_t>(4 * progress.rate) + 50;
  if (progress.samples < membership::kCounterMax) {
    progress.voucher = voucher(progress.id_prefix, progress.samples + soon);
  }
  (void)table.merge(std::span(&progress, 1), from, now);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(progress)

BOOST_AUTO_TEST_CASE(counters_never_fall) {
  Table table(1);
  (void)table.set_own(entry(1, 10), true, kStart);
  (void)table.set_own(entry(1, 5), true, kStart);
  merge(table, entry(2, 100), kStart);
  merge(table, entry(2, 90), kStart);
  table.observe(2, 80, kStart);
  BOOST_TEST(table.total(kStart) == 110);
  table.observe(2, 120, kStart);
  BOOST_TEST(table.total(kStart) == 130);
}

BOOST_AUTO_TEST_CASE(an_absurd_counter_is_not_taken) {
  Table table(1);
  (void)table.set_own(entry(1, 10), true, kStart);
  merge(table, entry(1, membership::kCounterMax), kStart);
  merge(table, entry(2, std::numeric_limits<std::uint64_t>::max()), kStart);
  BOOST_TEST(table.total(kStart) == 10);
}

// It was killed after it had told them, and its last checkpoint is older.
BOOST_AUTO_TEST_CASE(what_others_know_of_a_former_life_counts_and_what_follows_on_top) {
  Table table(1);
  (void)table.set_own(entry(1, 10), true, kStart);
  merge(table, entry(1, 1000), kStart);
  BOOST_TEST(table.total(kStart) == 1000);
  (void)table.set_own(entry(1, 30), true, kStart + 1s);
  BOOST_TEST(table.total(kStart + 1s) == 1020);
  BOOST_TEST(table.find(1)->rate <= 20);  // the jump does not count as speed
  merge(table, entry(1, 1020), kStart + 1s);
  BOOST_TEST(table.total(kStart + 1s) == 1020);
}

// Before its first step it waits, for links and for others' parameters, and the clock may have run
// for days when it starts.
BOOST_AUTO_TEST_CASE(who_is_started_again_has_no_rate_before_it_has_trained) {
  Table table(1);
  (void)table.set_own(entry(1, 6'000'000), false, kStart);
  (void)table.set_own(entry(1, 6'000'000), false, kStart + 30s);
  (void)table.set_own(entry(1, 6'000'064), true, kStart + 40s);  // its first step
  BOOST_TEST(table.find(1)->rate == 0.0F);
  for (int step = 1; step <= 40; ++step) {
    const base::Time now = kStart + 40s + step * 50ms;
    (void)table.set_own(entry(1, 6'000'064 + 64U * static_cast<unsigned>(step)), true, now);
    BOOST_TEST(table.find(1)->rate <= 1280.5F);
  }
  BOOST_TEST(table.find(1)->rate > 1279.0F);
  (void)table.entries_for_heartbeat(9, kStart + 42s);
  (void)table.entries_for_heartbeat(9, kStart + 45s);
  BOOST_TEST(table.find(1)->rate == 0.0F);  // that it stands still is seen as soon as ever
}

BOOST_AUTO_TEST_CASE(what_is_known_of_a_former_life_counts_once_when_it_ends) {
  Table table(1);
  (void)table.set_own(entry(1, 10), true, kStart);
  merge(table, entry(1, 1000), kStart);
  (void)table.set_own(entry(1, 30), true, kStart + 1s);
  table.end_own(kStart + 2s);
  BOOST_TEST(table.total(kStart + 2s) == 1020);
  BOOST_TEST(table.recalled() == 990U);
}

BOOST_AUTO_TEST_CASE(a_neighbour_is_told_its_own_counter_where_it_may_not_know_it) {
  Table table(1);
  (void)table.set_own(entry(1, 10), true, kStart);
  merge(table, entry(7, 30), kStart, 7);
  BOOST_TEST(table.entries_for_heartbeat(7, kStart).size() == 1U);  // ours: it has said the other
  table.forget(7);
  const auto entries = table.entries_for_heartbeat(7, kStart);
  BOOST_REQUIRE(entries.size() == 2U);
  BOOST_TEST(entries[0].id_prefix == 7U);
  BOOST_TEST(entries[0].samples == 30U);
  table.observe(7, 50, kStart);
  table.forget(7);
  BOOST_TEST(table.entries_for_heartbeat(7, kStart)[0].samples == 50U);
  merge(table, entry(7, 60), kStart, 8);  // by another way than its own word
  BOOST_TEST(table.entries_for_heartbeat(7, kStart).empty());
}

BOOST_AUTO_TEST_CASE(counters_of_a_former_life_are_restored_and_passed_on) {
  Table former(1);
  (void)former.set_own(entry(1, 100), true, kStart);
  merge(former, entry(2, 500, 50), kStart);
  std::vector<base::SampleCounter> counters = former.counters_of_others();
  counters.push_back({1, 100});
  counters.push_back({3, membership::kCounterMax});
  Table table(1);
  table.restore(counters);
  (void)table.set_own(entry(1, 60), true, kStart + 10s);  // its checkpoint is older
  BOOST_TEST(table.total(kStart + 11s) == 600);           // nobody is taken further
  BOOST_TEST(table.entries_for_heartbeat(9, kStart + 11s).size() == 2U);
  (void)table.set_own(entry(1, 70), true, kStart + 12s);
  merge(table, entry(2, 510), kStart + 12s);
  BOOST_TEST(table.total(kStart + 12s) == 620);
}

BOOST_AUTO_TEST_CASE(no_more_counters_are_restored_than_there_may_be) {
  std::vector<base::SampleCounter> counters;
  for (std::uint64_t prefix = 2; prefix < 2 + 2 * membership::kProgressMax; ++prefix) {
    counters.push_back({prefix, 1});
  }
  Table table(1);
  table.restore(counters);
  (void)table.set_own(entry(1, 1), true, kStart);
  BOOST_TEST(table.size() == membership::kProgressMax);
}

BOOST_AUTO_TEST_CASE(a_counter_that_finds_no_room_is_noted) {
  Table table(1);
  (void)table.set_own(entry(1, 1), true, kStart);
  for (std::uint64_t prefix = 2; prefix <= membership::kProgressMax; ++prefix) {
    merge(table, entry(prefix, 1), kStart);
  }
  merge(table, entry(2, 5), kStart);
  BOOST_TEST(!table.has_overflowed());
  merge(table, entry(membership::kProgressMax + 1, 7), kStart);
  BOOST_TEST(table.has_overflowed());
  BOOST_TEST(table.samples_of(membership::kProgressMax + 1, kStart) == 0U);
}

BOOST_AUTO_TEST_CASE(a_report_counts_though_later_samples_were_seen_before_it_came) {
  Table table(1);
  merge(table, entry(2, 90), kStart, 2);
  table.observe(2, 120, kStart + 1s);
  Progress report = entry(2, 100);
  report.accuracy = 0.5F;
  report.links = 3;
  merge(table, report, kStart + 1s, 2);
  BOOST_TEST(table.find(2)->accuracy == 0.5F);
  BOOST_TEST(table.samples_of(2, kStart) == 120U);
  BOOST_TEST(table.total(kStart + 1s) == 120U);
  const auto told = table.entries_for_heartbeat(9, kStart + 1s);
  BOOST_REQUIRE(told.size() == 1U);
  BOOST_TEST(told[0].samples == 100U);  // with the report, as its owner told it
  BOOST_TEST(told[0].links == 3U);
}

BOOST_AUTO_TEST_CASE(a_silent_alive_peer_is_taken_further_at_the_rate_it_told_up_to_the_horizon) {
  Table table(1);
  merge(table, entry(2, 1000, 100), kStart);
  BOOST_TEST((table.horizon() == 2s));
  BOOST_TEST(table.rate(kStart) == 100, boost::test_tools::tolerance(1e-6));
  BOOST_TEST(table.total(kStart) == 1000);
  BOOST_TEST(table.total(kStart + 1s) == 1100);
  BOOST_TEST(table.total(kStart + 2s) == 1200);
  BOOST_TEST(table.total(kStart + 9s) == 1200);
  BOOST_TEST(table.rate(kStart + 9s) == 0);
  merge(table, entry(2, 1100, 100), kStart + 9s);
  BOOST_TEST(table.total(kStart + 9s) == 1100);  // it had slowed down: an estimate is corrected
}

BOOST_AUTO_TEST_CASE(a_peer_that_ended_training_is_not_taken_further) {
  Table table(1);
  merge(table, entry(2, 1000, 100), kStart);
  Progress end = entry(2, 1010, 0);
  BOOST_TEST(table.merge(std::span(&end, 1), 2, kStart + 100ms).ended);
  BOOST_TEST(table.total(kStart + 2s) == 1010);
  merge(table, entry(2, 1010, 100), kStart + 100ms);  // older news by a longer way
  BOOST_TEST(table.total(kStart + 2s) == 1010);
}

BOOST_AUTO_TEST_CASE(the_end_of_training_is_told_at_once_and_steps_are_not) {
  Table table(1);
  BOOST_TEST(!table.set_own(entry(1, 0), true, kStart));
  for (int i = 1; i <= 100; ++i) {
    BOOST_TEST(
        !table.set_own(entry(1, static_cast<std::uint64_t>(10 * i)), true, kStart + i * 20ms));
  }
  BOOST_TEST(table.rate(kStart + 2s) == 500, boost::test_tools::tolerance(1e-3));
  BOOST_TEST(table.set_own(entry(1, 1000), false, kStart + 2s));
  const auto told = table.entries_for_heartbeat(7, kStart + 2s);
  BOOST_REQUIRE(told.size() == 1);
  BOOST_TEST(told[0].rate == 0);
  BOOST_TEST(!table.set_own(entry(1, 1000), false, kStart + 2s));
}

BOOST_AUTO_TEST_CASE(
    a_trainer_that_stands_still_says_so_once_and_that_it_goes_on_with_its_next_entry) {
  Table table(1);
  std::uint64_t samples = 0;
  base::Time now = kStart;
  const auto steps = [&](int count) {
    for (int i = 0; i < count; ++i) {
      now += 100ms;
      (void)table.set_own(entry(1, samples += 10), true, now);
    }
  };
  steps(30);
  BOOST_TEST(table.entries_for_heartbeat(7, now).at(0).rate > 0);
  now += membership::kStall;
  BOOST_TEST(table.entries_for_heartbeat(7, now).at(0).rate == 0);
  BOOST_TEST(table.entries_for_heartbeat(7, now).empty());
  steps(11);
  const auto told = table.entries_for_heartbeat(7, now);
  BOOST_REQUIRE(told.size() == 1);
  BOOST_TEST(told[0].samples == samples);
  BOOST_TEST(told[0].rate == 100, boost::test_tools::tolerance(0.01));
}

BOOST_AUTO_TEST_CASE(slow_steps_are_not_taken_for_a_stand) {
  Table table(1);
  for (int i = 0; i < 10; ++i) {
    (void)table.set_own(entry(1, static_cast<std::uint64_t>(10 * i)), true, kStart + i * 5s);
  }
  for (int second = 0; second < 15; ++second) {
    for (const auto& told : table.entries_for_heartbeat(7, kStart + 45s + second * 1s)) {
      BOOST_TEST(told.rate > 0);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_suspect_is_not_taken_further_until_it_refutes) {
  Table table(1);
  merge(table, entry(2, 1000, 100), kStart);
  table.set_state(2, wire::MemberState::suspect);
  BOOST_TEST(table.total(kStart + 1s) == 1000);
  table.set_state(2, wire::MemberState::alive);
  BOOST_TEST(table.total(kStart + 1s) == 1100);
}

BOOST_AUTO_TEST_CASE(total_is_the_sum_at_the_end_whatever_was_extrapolated_before) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    BOOST_TEST_CONTEXT("seed " << seed) {
      base::Rng rng(seed);
      Table table(1);
      std::uint64_t sum = 0;
      for (std::uint64_t prefix = 2; prefix <= 9; ++prefix) {
        std::uint64_t samples = 0;
        base::Time now = kStart;
        for (int i = 0; i < 30; ++i) {
          now += base::from_seconds(2 * rng.uniform());
          samples += rng.below(500);
          merge(table, entry(prefix, samples, static_cast<float>(rng.below(900))), now);
          (void)table.total(now + 1s);
        }
        merge(table, entry(prefix, samples + 1, 0), now);
        sum += samples + 1;
      }
      BOOST_TEST(table.total(kStart + 61s) == sum);
    }
  }
}

BOOST_AUTO_TEST_CASE(age_on_the_way_counts) {
  Table table(1);
  Progress old = entry(2, 1000, 100);
  old.age_ms = 1500;
  merge(table, old, kStart);
  BOOST_TEST(table.total(kStart) == 1150);
  Table far(3);
  const auto told = table.entries_for_heartbeat(3, kStart + 250ms);
  BOOST_REQUIRE(told.size() == 1);
  BOOST_TEST(told[0].age_ms == 1750U);
}

BOOST_AUTO_TEST_CASE(a_dead_peer_counts_but_is_not_taken_further) {
  Table table(1);
  merge(table, entry(2, 1000, 100), kStart);
  table.set_state(2, wire::MemberState::dead);
  BOOST_TEST(table.total(kStart + 2s) == 1000);
  BOOST_TEST(table.rate(kStart) == 0);
}

BOOST_AUTO_TEST_CASE(in_a_large_swarm_a_peer_tells_its_counter_more_rarely) {
  BOOST_TEST((membership::progress_interval(4, 1s) == 1s));
  BOOST_TEST((membership::progress_interval(1000, 1s) == 48s));
  Table table(1);
  for (std::uint64_t prefix = 2; prefix <= 1000; ++prefix) merge(table, entry(prefix, 1), kStart);
  (void)table.set_own(entry(1, 0), true, kStart);
  while (!table.entries_for_heartbeat(7, kStart).empty()) continue;
  int told = 0;
  for (int second = 1; second <= 480; ++second) {
    const base::Time now = kStart + second * 1s;
    (void)table.set_own(entry(1, static_cast<std::uint64_t>(100 * second)), true, now);
    told += static_cast<int>(table.entries_for_heartbeat(7, now).size());
  }
  BOOST_TEST(told >= 10);
  BOOST_TEST(told <= 12);  // one more when its rate is known
}

BOOST_AUTO_TEST_CASE(a_heartbeat_carries_what_changed_and_not_what_its_receiver_told) {
  Table table(1);
  const auto told = [&](std::uint64_t neighbour, base::Time now) {
    return table.entries_for_heartbeat(neighbour, now).size();
  };
  (void)table.set_own(entry(1, 10), true, kStart);
  merge(table, entry(2, 20), kStart, 7);
  merge(table, entry(7, 30), kStart, 7);
  BOOST_TEST(told(7, kStart) == 1);
  BOOST_TEST(told(7, kStart) == 0);
  BOOST_TEST(told(8, kStart) == 3);
  (void)table.set_own(entry(1, 11), true, kStart + 100ms);
  BOOST_TEST(told(7, kStart + 100ms) == 0);
  BOOST_TEST(told(7, kStart + 1s) == 1);
  table.forget(8);
  BOOST_TEST(told(8, kStart + 1s) == 3);
  // It may have forgotten in a restart what it told, its own counter included.
  table.forget(7);
  BOOST_TEST(told(7, kStart + 1s) == 3);
}

BOOST_AUTO_TEST_CASE(all_neighbours_are_told_the_same_count_though_their_beats_differ) {
  Table table(1);
  (void)table.set_own(entry(1, 10), true, kStart);
  (void)table.set_own(entry(1, 11), true, kStart + 600ms);  // its rate is known now
  (void)table.set_own(entry(1, 12), true, kStart + 700ms);
  const auto first = table.entries_for_heartbeat(7, kStart + 1s);
  (void)table.set_own(entry(1, 25), true, kStart + 1050ms);
  const auto second = table.entries_for_heartbeat(8, kStart + 1100ms);
  BOOST_REQUIRE(first.size() == 1);
  BOOST_REQUIRE(second.size() == 1);
  BOOST_TEST(first[0].samples == 11U);
  BOOST_TEST(second[0].samples == 11U);
  BOOST_TEST(first[0].age_ms == 400U);
  BOOST_TEST(second[0].age_ms == 500U);
}

BOOST_AUTO_TEST_CASE(a_report_goes_along_when_it_changed) {
  Table table(1);
  Progress own = entry(1, 10);
  own.links = 3;
  (void)table.set_own(own, true, kStart);
  BOOST_TEST(table.entries_for_heartbeat(7, kStart).at(0).report);
  own.samples = 20;
  (void)table.set_own(own, true, kStart + 1s);
  BOOST_TEST(table.entries_for_heartbeat(7, kStart + 1s).at(0).report);  // with its first rate
  own.samples = 30;
  (void)table.set_own(own, true, kStart + 2s);
  BOOST_TEST(!table.entries_for_heartbeat(7, kStart + 2s).at(0).report);
  own.loss = 0.5F;
  (void)table.set_own(own, true, kStart + 2500ms);
  const auto told = table.entries_for_heartbeat(7, kStart + 2500ms);
  BOOST_TEST(told.at(0).report);
  Table other(7);
  (void)other.merge(told, 1, kStart);
  Progress bare = entry(1, 40);
  bare.report = false;
  merge(other, bare, kStart, 1);
  BOOST_TEST(other.find(1)->samples == 40);
  BOOST_TEST(other.find(1)->loss == 0.5F);
  BOOST_TEST(other.find(1)->links == 3);
}

BOOST_AUTO_TEST_CASE(many_counters_go_in_several_heartbeats_and_are_bounded) {
  Table table(1);
  for (std::uint64_t prefix = 2; prefix < 2 + 2 * membership::kProgressMax; ++prefix) {
    merge(table, entry(prefix, 1), kStart);
  }
  BOOST_TEST(table.size() == membership::kProgressMax);
  std::size_t sent = 0;
  for (std::size_t i = 0; i < membership::kProgressMax / wire::kVouchersPerFrame; ++i) {
    const auto entries = table.entries_for_heartbeat(7, kStart);
    BOOST_TEST(entries.size() <= wire::kProgressPerFrame);
    sent += entries.size();
  }
  BOOST_TEST(sent >= membership::kProgressMax - 1);  // all but the receiver's own
  BOOST_TEST(table.entries_for_heartbeat(7, kStart).empty());
}

BOOST_AUTO_TEST_CASE(reports_with_equal_counters_end_the_same_in_any_order) {
  Progress better = entry(2, 20);
  better.loss = 0.5F;
  Progress worse = entry(2, 20);
  worse.loss = 0.7F;
  for (const bool better_first : {true, false}) {
    Table table(1);
    merge(table, entry(2, 20), kStart);
    merge(table, better_first ? better : worse, kStart);
    merge(table, better_first ? worse : better, kStart);
    BOOST_TEST(table.find(2)->loss == 0.5F);
  }
}

BOOST_AUTO_TEST_SUITE_END()
