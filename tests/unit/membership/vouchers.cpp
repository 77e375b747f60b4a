#include <cmath>

#include <boost/test/unit_test.hpp>

#include "membership/limits.hpp"
#include "table.hpp"

using namespace starling;
using namespace std::chrono_literals;
using membership::kTimesMost;
using membership::kVouchPatience;
using membership::testing::Table;
using membership::testing::voucher;
using wire::Progress;

namespace {

constexpr base::Time kStart{100s};

/// A peer that trains 100 samples a second and watches others.
struct Watcher {
  explicit Watcher(std::uint64_t own = 1) : table(own), prefix(own) { pass(0s); }

  void pass(base::Duration time) {
    const base::Time until = now + time;
    do {
      (void)table.set_own({.id_prefix = prefix, .samples = trained()}, true, now);
      now += 100ms;
    } while (now <= until);
  }
  [[nodiscard]] std::uint64_t trained() const {
    return static_cast<std::uint64_t>(100 * base::seconds(now - kStart));
  }
  /// A neighbour says so itself; whether it is plausible long since.
  bool hear(std::uint64_t from, double samples, double rate) {
    const Progress told{.id_prefix = from,
                        .samples = static_cast<std::uint64_t>(samples),
                        .rate = static_cast<float>(rate)};
    (void)table.merge(std::span(&told, 1), from, now);
    return table.vouch_for(from, now);
  }
  /// A neighbour that trains at this rate from the start on, for so long.
  void beside(std::uint64_t other, double rate, base::Duration time) {
    for (const base::Time until = now + time; now <= until;) {
      pass(1s);
      (void)hear(other, rate * base::seconds(now - kStart), rate);
    }
  }
  [[nodiscard]] std::uint64_t counted(std::uint64_t other) const {
    return table.samples_of(other, now);
  }

  Table table;
  std::uint64_t prefix;
  base::Time now = kStart;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(vouchers)

BOOST_AUTO_TEST_CASE(what_nobody_vouches_for_is_not_counted) {
  Watcher one;
  one.pass(kVouchPatience + 1s);
  const Progress told{.id_prefix = 2, .samples = 500};
  (void)one.table.merge(std::span(&told, 1), 2, one.now);
  BOOST_TEST(one.counted(2) == 0U);
  BOOST_TEST(one.table.total(one.now) == one.table.samples_of(1, one.now));
}

BOOST_AUTO_TEST_CASE(in_the_beginning_it_counts_up_to_twice_what_this_peer_has_trained) {
  Watcher one;
  one.pass(1s);
  const Progress told{.id_prefix = 2, .samples = 1'000'000};
  (void)one.table.merge(std::span(&told, 1), 2, one.now);
  BOOST_TEST(one.counted(2) == membership::kEarlyTimes * one.table.samples_of(1, one.now));
}

BOOST_AUTO_TEST_CASE(a_newcomer_believes_the_past_of_a_single_other) {
  Table one(1);
  (void)one.set_own({.id_prefix = 1}, false, kStart);
  Progress told{.id_prefix = 2, .samples = 1'000'000};
  (void)one.merge(std::span(&told, 1), 2, kStart);
  BOOST_TEST(one.total(kStart) == 1'000'000U);
  told.samples = 2'000'000;
  (void)one.merge(std::span(&told, 1), 2, kStart + 1s);
  BOOST_TEST(one.total(kStart + 1s) == 1'000'000U);
  const Progress other{.id_prefix = 3, .samples = 5};
  (void)one.merge(std::span(&other, 1), 3, kStart + 1s);
  BOOST_TEST(one.total(kStart + 1s) == 0U);
}

BOOST_AUTO_TEST_CASE(a_counter_counts_as_far_as_another_peer_has_signed) {
  Watcher one;
  one.pass(kVouchPatience + 1s);
  Progress told{.id_prefix = 2, .samples = 500, .voucher = voucher(2, 300)};
  BOOST_TEST(!one.table.merge(std::span(&told, 1), 2, one.now).forged);
  BOOST_TEST(one.counted(2) == 300U);
  told.voucher = voucher(2, 400);
  (void)one.table.merge(std::span(&told, 1), 2, one.now);
  BOOST_TEST(one.counted(2) == 400U);
  told.voucher = voucher(2, 300);
  (void)one.table.merge(std::span(&told, 1), 2, one.now);
  BOOST_TEST(one.counted(2) == 400U);
}

BOOST_AUTO_TEST_CASE(its_owner_or_a_changed_limit_vouch_for_nothing) {
  Watcher one;
  one.pass(kVouchPatience + 1s);
  Progress told{.id_prefix = 2, .samples = 500, .voucher = voucher(2, 600, 2)};
  BOOST_TEST(one.table.merge(std::span(&told, 1), 2, one.now).forged);
  told.voucher = voucher(2, 300);
  told.voucher->limit = 600;
  BOOST_TEST(one.table.merge(std::span(&told, 1), 2, one.now).forged);
  told.voucher = voucher(3, 600);
  BOOST_TEST(one.table.merge(std::span(&told, 1), 2, one.now).forged);
  BOOST_TEST(one.counted(2) == 0U);
}

BOOST_AUTO_TEST_CASE(equal_tables_give_equal_sums) {
  Watcher one;
  Watcher other(3);
  one.beside(2, 100, 60s);
  other.pass(60s);
  for (const Progress& entry : one.table.entries_for_heartbeat(3, one.now)) {
    (void)other.table.merge(std::span(&entry, 1), 1, other.now);
  }
  BOOST_TEST(other.table.samples_of(2, other.now) == one.counted(2));
  BOOST_TEST(one.counted(2) > 5900U);
}

BOOST_AUTO_TEST_CASE(an_honest_neighbour_is_vouched_for_in_time_and_seldom) {
  Watcher one;
  std::size_t vouchers = 0;
  for (int second = 1; second <= 600; ++second) {
    one.beside(2, 300, 0s);
    const auto told = one.table.entries_for_heartbeat(9, one.now);
    for (const Progress& entry : told) vouchers += entry.voucher ? 1 : 0;
    if (second > 3) BOOST_TEST(one.counted(2) == one.table.find(2)->samples);
  }
  BOOST_TEST(vouchers <= 30U);
}

BOOST_AUTO_TEST_CASE(who_counts_far_more_than_others_is_not_counted_and_named_once) {
  Watcher one;
  (void)one.hear(2, 0, 0);
  int named = 0;
  for (int second = 1; second <= 60; ++second) {
    one.pass(1s);
    named += one.hear(2, 1e6 * second, 1e6) ? 1 : 0;
  }
  BOOST_TEST(one.counted(2) == 0U);
  BOOST_TEST(named == 1);
}

BOOST_AUTO_TEST_CASE(who_begins_to_lie_is_counted_as_far_as_it_was_vouched_for) {
  Watcher one;
  one.beside(2, 100, 100s);
  const std::uint64_t before = one.counted(2);
  for (int second = 1; second <= 60; ++second) {
    one.pass(1s);
    (void)one.hear(2, 1e12, 1e9);
  }
  BOOST_TEST(static_cast<double>(one.counted(2)) < 1.5 * static_cast<double>(before));
}

BOOST_AUTO_TEST_CASE(who_counts_nothing_holds_nobody_up) {
  Watcher one;
  for (int second = 1; second <= 60; ++second) {
    one.pass(1s);
    BOOST_TEST(!one.hear(2, 0, 1e9));
  }
  BOOST_TEST(one.table.total(one.now) == one.table.samples_of(1, one.now));
}

BOOST_AUTO_TEST_CASE(a_peer_that_is_a_thousand_times_faster_counts_where_its_replica_shows_it) {
  Watcher one;
  for (int exchange = 0; exchange < 2 * membership::kExchangesWatched; ++exchange) {
    (void)one.hear(2, 0, 0);
    one.table.watch(2, 0.03, 0.03 * std::sqrt(1000));
  }
  one.beside(2, 100'000, 30s);
  BOOST_TEST(one.counted(2) == one.table.find(2)->samples);
}

BOOST_AUTO_TEST_CASE(nothing_that_is_told_of_a_replica_is_worth_more_than_the_most) {
  Watcher one;
  (void)one.hear(2, 0, 0);
  for (int exchange = 0; exchange < 100; ++exchange) {
    one.table.watch(2, 0, 1);
    one.table.watch(2, 1e-30, 1e30);
    one.table.watch(2, 1e-200, std::nan(""));
    one.table.watch(2, 1e-200, 1e300);
  }
  for (int second = 1; second <= 60; ++second) {
    one.pass(1s);
    (void)one.hear(2, 2 * kTimesMost * 100 * (second + 2), 1e9);
  }
  BOOST_TEST(one.counted(2) == 0U);
}

BOOST_AUTO_TEST_CASE(a_friend_s_word_is_bounded_too) {
  Watcher one;
  one.beside(3, 100, 30s);
  Progress told{.id_prefix = 2, .samples = 1ULL << 40, .voucher = voucher(2, 1ULL << 40)};
  (void)one.table.merge(std::span(&told, 1), 9, one.now);
  BOOST_TEST(one.counted(2) == 0U);
  told.voucher = voucher(2, 100'000);
  (void)one.table.merge(std::span(&told, 1), 9, one.now);
  BOOST_TEST(one.counted(2) == 100'000U);
}

BOOST_AUTO_TEST_CASE(what_a_former_life_knew_counts_and_others_are_told_so_that_they_can_count_it) {
  Table table(1);
  const base::SampleCounter counters[] = {{2, 5000}};
  table.restore(counters);
  (void)table.set_own({.id_prefix = 1, .samples = 10}, true, kStart);
  BOOST_TEST(table.samples_of(2, kStart + 1min) == 5000U);
  Table newcomer(7);
  (void)newcomer.merge(table.entries_for_heartbeat(7, kStart + 1min), 1, kStart + 1min);
  BOOST_TEST(newcomer.samples_of(2, kStart + 2min) == 5000U);
}

BOOST_AUTO_TEST_CASE(a_peer_takes_no_word_for_its_own_former_life_that_nobody_has_signed) {
  Table table(1);
  (void)table.set_own({.id_prefix = 1, .samples = 10}, true, kStart);
  Progress own{.id_prefix = 1, .samples = 1000};
  (void)table.merge(std::span(&own, 1), 2, kStart);
  BOOST_TEST(table.total(kStart) == 10U);
  own.voucher = voucher(1, 800);
  (void)table.merge(std::span(&own, 1), 2, kStart);
  BOOST_TEST(table.total(kStart) == 800U);
}

BOOST_AUTO_TEST_CASE(a_voucher_is_told_once_and_not_to_who_told_it) {
  Watcher one;
  one.pass(kVouchPatience + 1s);
  const Progress told{.id_prefix = 2, .samples = 500, .voucher = voucher(2, 600)};
  (void)one.table.merge(std::span(&told, 1), 8, one.now);
  const auto vouchers = [&](std::uint64_t neighbour) {
    std::size_t count = 0;
    for (const Progress& entry : one.table.entries_for_heartbeat(neighbour, one.now)) {
      count += entry.voucher ? 1 : 0;
    }
    return count;
  };
  BOOST_TEST(vouchers(8) == 0U);
  BOOST_TEST(vouchers(9) == 1U);
  BOOST_TEST(vouchers(9) == 0U);
  one.table.forget(8);
  one.table.forget(9);
  BOOST_TEST(vouchers(8) == 1U);
  BOOST_TEST(vouchers(9) == 1U);
}

BOOST_AUTO_TEST_CASE(a_frame_has_no_more_vouchers_than_it_may) {
  Watcher one;
  for (std::uint64_t prefix = 10; prefix < 10 + 2 * wire::kVouchersPerFrame; ++prefix) {
    const Progress told{.id_prefix = prefix, .samples = 5, .voucher = voucher(prefix, 5)};
    (void)one.table.merge(std::span(&told, 1), 8, one.now);
  }
  std::size_t entries = 0;
  for (;;) {
    const auto told = one.table.entries_for_heartbeat(9, one.now);
    if (told.empty()) break;
    std::size_t vouchers = 0;
    for (const Progress& entry : told) vouchers += entry.voucher ? 1 : 0;
    BOOST_TEST(vouchers <= wire::kVouchersPerFrame);
    entries += told.size();
  }
  BOOST_TEST(entries == 1 + 2 * wire::kVouchersPerFrame);
}

BOOST_AUTO_TEST_SUITE_END()
