#include "scenarios/switch/fabric.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include <boost/test/unit_test.hpp>

using namespace std::chrono_literals;
using starling::base::Duration;
using starling::base::Time;
using starling::net_switch::Conditions;
using starling::net_switch::Fabric;
using starling::net_switch::Frame;

namespace {

constexpr std::size_t kSize = 1500;

/// A frame to a port, with a number that tells it from others.
Frame frame_to(std::size_t port, std::uint32_t number = 0, std::size_t size = kSize) {
  Frame frame(size);
  const auto mac = starling::net_switch::mac_of(port);
  std::ranges::copy(mac, frame.begin());
  for (std::size_t i = 0; i < 4; ++i) frame[14 + i] = static_cast<std::uint8_t>(number >> (8 * i));
  return frame;
}

std::uint32_t number_of(const Frame& frame) {
  std::uint32_t number = 0;
  for (std::size_t i = 0; i < 4; ++i) number |= std::uint32_t{frame[14 + i]} << (8 * i);
  return number;
}

struct Arrival {
  Time at;
  std::size_t to;
  Frame frame;
};

/// Everything that is under way, at the times at which it arrives.
std::vector<Arrival> drain(Fabric& fabric) {
  std::vector<Arrival> arrivals;
  while (const auto due = fabric.next_due()) {
    while (auto delivery = fabric.take(*due)) {
      arrivals.push_back({*due, delivery->to, std::move(delivery->frame)});
    }
  }
  return arrivals;
}

/// Sends `count` numbered frames from port 0 to 1, `gap` apart.
std::vector<Arrival> send(Fabric& fabric, std::uint32_t count, Duration gap) {
  for (std::uint32_t i = 0; i < count; ++i) fabric.submit(0, frame_to(1, i), Time(i * gap));
  return drain(fabric);
}

Fabric with(const Conditions& conditions, std::uint64_t seed = 1) {
  Fabric fabric(3, seed);
  fabric.set(0, 1, conditions);
  return fabric;
}

std::vector<std::uint32_t> numbers(const std::vector<Arrival>& arrivals) {
  std::vector<std::uint32_t> found;
  for (const Arrival& arrival : arrivals) found.push_back(number_of(arrival.frame));
  return found;
}

/// A binomial count within five standard deviations of the expected one.
void check_share(std::uint64_t count, std::uint64_t of, double share) {
  const double expected = static_cast<double>(of) * share;
  const double deviation = std::sqrt(expected * (1 - share));
  BOOST_TEST(std::abs(static_cast<double>(count) - expected) < 5 * deviation,
             count << " of " << of << ", expected a share of " << share);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(fabric)

BOOST_AUTO_TEST_CASE(without_conditions_a_frame_arrives_whole_and_at_once) {
  Fabric fabric(3, 1);
  const Frame frame = frame_to(2, 7);
  fabric.submit(0, frame, Time(5s));
  const auto arrivals = drain(fabric);
  BOOST_TEST_REQUIRE(arrivals.size() == 1U);
  BOOST_TEST((arrivals[0].at == Time(5s)));
  BOOST_TEST(arrivals[0].to == 2U);
  BOOST_TEST(arrivals[0].frame == frame);
  BOOST_TEST(fabric.held_bytes() == 0U);
}

BOOST_AUTO_TEST_CASE(a_broadcast_reaches_all_others) {
  Fabric fabric(4, 1);
  fabric.submit(1, Frame(60, 0xff), Time{});
  std::vector<std::size_t> reached;
  for (const Arrival& arrival : drain(fabric)) reached.push_back(arrival.to);
  BOOST_TEST(reached == (std::vector<std::size_t>{0, 2, 3}));
}

BOOST_AUTO_TEST_CASE(what_has_no_port_goes_nowhere_and_is_counted) {
  Fabric fabric(3, 1);
  fabric.submit(0, frame_to(3), Time{});  // no such port
  fabric.submit(0, frame_to(0), Time{});  // itself
  Frame foreign = frame_to(1);
  foreign[2] = 9;  // no address of ours
  fabric.submit(0, foreign, Time{});
  fabric.submit(0, Frame(13), Time{});  // no whole header
  fabric.submit(0, Frame(starling::net_switch::kFrameMax + 1), Time{});
  BOOST_TEST(!fabric.next_due());
  BOOST_TEST(fabric.unroutable() == 5U);
}

BOOST_AUTO_TEST_CASE(delay_holds_one_direction_alone) {
  Fabric fabric = with({.delay = 40ms});
  fabric.submit(0, frame_to(1), Time{});
  fabric.submit(1, frame_to(0), Time{});
  const auto arrivals = drain(fabric);
  BOOST_TEST_REQUIRE(arrivals.size() == 2U);
  BOOST_TEST((arrivals[0].to == 0U && arrivals[0].at == Time{}));
  BOOST_TEST((arrivals[1].to == 1U && arrivals[1].at == Time(40ms)));
}

BOOST_AUTO_TEST_CASE(a_rate_lets_through_what_it_says_after_its_burst) {
  // 12 Mbit/s: a full frame each millisecond, two at once at first.
  Fabric fabric = with({.rate = 12e6, .queue = 1s});
  const auto arrivals = send(fabric, 100, Duration{});
  BOOST_TEST_REQUIRE(arrivals.size() == 100U);
  BOOST_TEST((arrivals[1].at == Time{}));
  const Duration last = arrivals[99].at.time_since_epoch();
  BOOST_TEST(starling::base::seconds(last) == 0.098, boost::test_tools::tolerance(0.01));
  for (std::size_t i = 3; i < arrivals.size(); ++i) {
    const double gap = starling::base::seconds(arrivals[i].at - arrivals[i - 1].at);
    BOOST_TEST(gap == 0.001, boost::test_tools::tolerance(0.01));
  }
}

BOOST_AUTO_TEST_CASE(a_full_queue_drops_what_comes_next_and_no_more) {
  Fabric fabric = with({.rate = 12e6, .queue = 10ms});
  BOOST_TEST(send(fabric, 100, Duration{}).size() == 12U);  // 10 wait, 2 were the burst
  BOOST_TEST(fabric.counters(0, 1).overflowed == 88U);
  // Twice the rate for two seconds: half of it passes.
  Fabric steady = with({.rate = 12e6, .queue = 10ms});
  const auto passed = send(steady, 4000, 500us).size();
  BOOST_TEST(static_cast<double>(passed) == 2000.0, boost::test_tools::tolerance(0.02));
}

BOOST_AUTO_TEST_CASE(a_new_rate_starts_without_the_old_ones_queue) {
  Fabric fabric = with({.rate = 1e5, .queue = 10s});
  for (std::uint32_t i = 0; i < 20; ++i) fabric.submit(0, frame_to(1, i), Time{});
  fabric.set(0, 1, {.rate = 12e6, .delay = {}});
  while (fabric.take(Time(10s))) {
  }
  fabric.submit(0, frame_to(1, 99), Time(10s));
  const auto arrivals = drain(fabric);
  BOOST_TEST_REQUIRE(arrivals.size() == 1U);
  BOOST_TEST((arrivals[0].at == Time(10s)));
}

BOOST_AUTO_TEST_CASE(jitter_spreads_the_delay_and_keeps_the_order) {
  Fabric fabric = with({.delay = 20ms, .jitter = 10ms});
  const auto arrivals = send(fabric, 5000, 50ms);
  BOOST_TEST_REQUIRE(arrivals.size() == 5000U);
  double sum = 0;
  for (std::uint32_t i = 0; i < arrivals.size(); ++i) {
    const Duration taken = arrivals[i].at - Time(i * 50ms);
    BOOST_TEST_REQUIRE((taken >= 20ms && taken <= 30ms));
    sum += starling::base::seconds(taken);
  }
  BOOST_TEST(sum / 5000 == 0.025, boost::test_tools::tolerance(0.02));
  Fabric dense = with({.delay = 20ms, .jitter = 10ms});
  BOOST_TEST(std::ranges::is_sorted(numbers(send(dense, 5000, 10us))));
}

BOOST_AUTO_TEST_CASE(loss_duplication_reordering_and_damage_happen_as_often_as_asked) {
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    BOOST_TEST_CONTEXT("seed " << seed) {
      Fabric fabric = with(
          {.delay = 5ms, .loss = 0.1, .duplicate = 0.05, .reorder = 0.02, .corrupt = 0.03}, seed);
      const auto arrivals = send(fabric, 20'000, 100us);
      const auto& counters = fabric.counters(0, 1);
      check_share(counters.lost, 20'000, 0.1);
      check_share(counters.duplicated, 18'000, 0.05);
      check_share(counters.reordered, 18'000, 0.02);
      check_share(counters.corrupted, 18'000, 0.03);
      BOOST_TEST(arrivals.size() == counters.delivered);
      BOOST_TEST(counters.delivered == 20'000 - counters.lost + counters.duplicated);
      BOOST_TEST(counters.offered == 20'000U);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_reordered_frame_is_overtaken_and_not_lost) {
  Fabric fabric = with({.delay = 5ms, .reorder = 0.1});
  auto found = numbers(send(fabric, 1000, 100us));
  BOOST_TEST(!std::ranges::is_sorted(found));
  std::ranges::sort(found);
  for (std::uint32_t i = 0; i < 1000; ++i) BOOST_TEST_REQUIRE(found[i] == i);
}

BOOST_AUTO_TEST_CASE(damage_is_one_bit_behind_the_addresses) {
  Fabric fabric = with({.corrupt = 1});
  for (std::uint32_t i = 0; i < 1000; ++i) fabric.submit(0, frame_to(1), Time{});
  const Frame whole = frame_to(1);
  for (const Arrival& arrival : drain(fabric)) {
    int bits = 0;
    for (std::size_t i = 0; i < whole.size(); ++i) {
      const int flipped = std::popcount(static_cast<unsigned>(whole[i] ^ arrival.frame[i]));
      BOOST_TEST_REQUIRE((flipped == 0 || i >= 14));
      bits += flipped;
    }
    BOOST_TEST_REQUIRE(bits == 1);
  }
}

BOOST_AUTO_TEST_CASE(a_cut_takes_one_direction_and_what_is_under_way) {
  Fabric fabric = with({.delay = 10ms});
  fabric.submit(0, frame_to(1), Time{});
  fabric.set(0, 1, {.delay = 10ms, .cut = true});
  fabric.submit(0, frame_to(1), Time(1ms));
  fabric.submit(1, frame_to(0), Time(1ms));
  const auto arrivals = drain(fabric);
  BOOST_TEST_REQUIRE(arrivals.size() == 1U);
  BOOST_TEST(arrivals[0].to == 0U);
  BOOST_TEST(fabric.counters(0, 1).cut == 2U);
  BOOST_TEST(fabric.held_bytes() == 0U);
  fabric.set(0, 1, {});
  fabric.submit(0, frame_to(1), Time(20ms));
  BOOST_TEST(drain(fabric).size() == 1U);
}

BOOST_AUTO_TEST_CASE(a_seed_decides_everything_and_pairs_do_not_share_luck) {
  const Conditions lossy{.jitter = 10ms, .loss = 0.3, .reorder = 0.1};
  Fabric first = with(lossy, 5), second = with(lossy, 5), other = with(lossy, 6);
  // Traffic and conditions elsewhere change nothing for this pair.
  second.set(0, 2, {.loss = 0.5});
  for (int i = 0; i < 100; ++i) second.submit(0, frame_to(2), Time{});
  while (second.take(Time{})) {
  }
  const auto a = send(first, 500, 1ms), b = send(second, 500, 1ms), c = send(other, 500, 1ms);
  BOOST_TEST(numbers(a) == numbers(b));
  BOOST_TEST((a.back().at == b.back().at));
  BOOST_TEST(numbers(a) != numbers(c));
}

BOOST_AUTO_TEST_CASE(what_is_under_way_is_bounded) {
  Fabric fabric = with({.delay = 600s});
  const Frame frame = frame_to(1, 0, starling::net_switch::kFrameMax);
  for (int i = 0; i < 20'000; ++i) fabric.submit(0, frame, Time{});
  BOOST_TEST(fabric.held_bytes() <= starling::net_switch::kHeldBytesMax);
  BOOST_TEST(fabric.held_bytes() > starling::net_switch::kHeldBytesMax * 9 / 10);
  BOOST_TEST(fabric.counters(0, 1).overflowed > 0U);
}

// A second of frames at 12 Mbit/s: a frame of 1,500 bytes takes 1 ms.
constexpr double kLineRate = 12e6;
constexpr std::uint32_t kLineFrames = 1000;

BOOST_AUTO_TEST_CASE(pairs_of_a_port_share_its_way_out) {
  Fabric fabric(3, 1);
  fabric.set_line(0, {.rate = kLineRate, .queue = 10s});
  for (std::uint32_t i = 0; i < kLineFrames; ++i) fabric.submit(0, frame_to(1 + i % 2, i), {});
  const auto arrivals = drain(fabric);
  BOOST_TEST_REQUIRE(arrivals.size() == kLineFrames);
  BOOST_TEST(std::abs(starling::base::seconds(arrivals.back().at.time_since_epoch()) - 1) < 0.01);
}

BOOST_AUTO_TEST_CASE(and_its_way_in_whatever_the_delays_of_those_who_send) {
  Fabric fabric(3, 1);
  fabric.set_line(2, {.rate = kLineRate, .queue = 10s});
  fabric.set(0, 2, {.delay = 500ms});
  for (std::uint32_t i = 0; i < kLineFrames / 2; ++i) fabric.submit(0, frame_to(2, i), {});
  for (std::uint32_t i = 0; i < kLineFrames / 2; ++i) fabric.submit(1, frame_to(2, i), {});
  const auto arrivals = drain(fabric);
  BOOST_TEST_REQUIRE(arrivals.size() == kLineFrames);
  // Those of port 1 come first though they were sent later, and leave the line free for the others.
  const auto middle = arrivals[kLineFrames / 2 - 1];
  BOOST_TEST(std::abs(starling::base::seconds(middle.at.time_since_epoch()) - 0.5) < 0.01);
  BOOST_TEST(std::abs(starling::base::seconds(arrivals.back().at.time_since_epoch()) - 1) < 0.01);
  BOOST_TEST(fabric.counters(1, 2).delivered == kLineFrames / 2);
  BOOST_TEST(fabric.held_bytes() == 0U);
}

BOOST_AUTO_TEST_CASE(what_would_wait_too_long_for_a_line_is_dropped) {
  for (const std::size_t limited : {std::size_t{0}, std::size_t{1}}) {
    Fabric fabric(2, 1);
    fabric.set_line(limited, {.rate = kLineRate, .queue = 50ms});
    BOOST_TEST(std::abs(static_cast<int>(send(fabric, kLineFrames, 0s).size()) - 52) <= 1);
    BOOST_TEST(fabric.counters(0, 1).overflowed > 900U);
  }
}

BOOST_AUTO_TEST_SUITE_END()
