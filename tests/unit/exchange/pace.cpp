#include "exchange/pace.hpp"

#include <chrono>

#include <boost/test/unit_test.hpp>

#include "exchange/core.hpp"
#include "transcript.hpp"

using namespace std::chrono_literals;
using namespace starling::exchange;
using namespace starling::exchange::test;
using starling::base::Duration;
using starling::base::StepNumber;
using starling::base::Time;

namespace {

constexpr double kUsual = 0.01;
/// Of a whole replica: a delta of a tenth of it has 100 kB.
constexpr double kWholeBytes = 1e6;

/// After steps of 50 ms and deltas of the usual density.
Pace used(const Config& config) {
  Pace pace(config);
  for (std::uint64_t step = 0; step < 100; ++step) {
    pace.on_steps(StepNumber{step}, Time(step * 50ms));
    pace.on_compute(40ms);
    pace.on_encoded(static_cast<std::size_t>(kWholeBytes * kUsual), kUsual, 3ms);
    pace.on_committed(1ms);
  }
  return pace;
}

/// Of a link whose line is not known.
double density_of(const Pace& pace, std::size_t links) {
  return pace.budget(kUsual, {}, links).density;
}

/// The budget of a link with that line, between steps of 50 ms and deltas each second one.
DeltaBudget on(const Line& line) { return used({.every = 2}).budget(kUsual, line, 4); }

double megabits(double bytes, Duration time) {
  return bytes * 8e-6 / starling::base::seconds(time);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(pace)

BOOST_AUTO_TEST_CASE(without_limits_all_is_as_the_run_file_says) {
  const Pace pace = used({.every = 3});
  BOOST_TEST(pace.every(4) == 3U);
  BOOST_TEST(density_of(pace, 4) == kUsual);
  BOOST_TEST(pace.upload_time(1'000'000, 4).count() == 0);
  BOOST_TEST(pace.budget(kUsual, {}, 4).lag_factor_max == kLagFactorMax);
}

BOOST_AUTO_TEST_CASE(densities_follow_a_link_s_share_of_the_upload) {
  // 10 kB each 100 ms are 0.8 Mbit/s a link.
  for (const double of_usual : {0.25, 1.0, 4.0}) {
    const Pace pace = used({.every = 2, .upload_limit = 2 * 0.8 * of_usual});
    const double density = density_of(pace, 2);
    const double used_up = megabits(kWholeBytes * density, 100ms);
    BOOST_TEST(used_up <= 0.8 * of_usual);
    BOOST_TEST(used_up > 0.9 * 0.8 * of_usual);
    BOOST_TEST(pace.budget(kUsual, {}, 2).lag_factor_max == 1.0);
  }
}

BOOST_AUTO_TEST_CASE(within_bounds) {
  BOOST_TEST(density_of(used({.every = 2, .upload_limit = 1e-6}), 2) == kUsual / kDensityFactorMax);
  BOOST_TEST(density_of(used({.every = 2, .upload_limit = 1e6}), 2) == kUsual * kDensityFactorMax);
  const Pace fresh({.upload_limit = 1});
  BOOST_TEST(density_of(fresh, 2) == kUsual);  // nothing is known yet
}

BOOST_AUTO_TEST_CASE(a_narrow_line_carries_what_it_can_between_two_deltas) {
  // 10 kB each 100 ms would be 100 kB a second.
  const DeltaBudget wide = on({.bandwidth = 1e6, .lag = 1, .bytes = 10'000});
  BOOST_TEST(wide.density == kUsual);
  const DeltaBudget narrow = on({.bandwidth = 50e3, .lag = 1, .bytes = 10'000});
  BOOST_TEST(kWholeBytes * narrow.density <= 50e3 * 0.1);
  BOOST_TEST(kWholeBytes * narrow.density > 0.9 * 50e3 * 0.1);
  BOOST_TEST(narrow.lag_factor_max == 1.0);
  BOOST_TEST(on({.bandwidth = 10, .lag = 1, .bytes = 10'000}).density ==
             kUsual / kDensityFactorMax);
}

BOOST_AUTO_TEST_CASE(what_a_delta_took_itself_makes_the_next_no_larger) {
  // The last one was on its way for 800 ms, and due each 100 ms.
  const DeltaBudget late = on({.bandwidth = 50e3, .lag = 8, .bytes = 40'000});
  BOOST_TEST(late.density * late.lag_factor_max * kWholeBytes <= 50e3 * 0.1);
  // A far end, whose answers take 400 ms and whose line stands idle meanwhile.
  const DeltaBudget far = on({.bandwidth = 50e3, .lag = 4, .bytes = 0});
  BOOST_TEST(far.density * far.lag_factor_max * kWholeBytes <= 50e3 * 0.4);
  BOOST_TEST(far.density * far.lag_factor_max * kWholeBytes > 0.9 * 50e3 * 0.4);
  BOOST_TEST(on({.bandwidth = 1e9, .lag = 100}).lag_factor_max == kLagFactorMax);
}

BOOST_AUTO_TEST_CASE(the_fastest_of_the_last_deltas_is_the_bandwidth) {
  Bandwidth bandwidth;
  BOOST_TEST(bandwidth.value() == 0.0);
  bandwidth.add(1000, 10ms);
  bandwidth.add(1000, 40ms);
  BOOST_TEST(bandwidth.value() == 100e3, boost::test_tools::tolerance(1e-9));
  for (std::size_t i = 1; i < Bandwidth::kWindow; ++i) bandwidth.add(1000, 20ms);
  BOOST_TEST(bandwidth.value() == 50e3, boost::test_tools::tolerance(1e-9));
  for (std::size_t i = 0; i < Bandwidth::kWindow; ++i) bandwidth.add(1000, 0ms);
  BOOST_TEST(bandwidth.value() == 0.0);
}

BOOST_AUTO_TEST_CASE(each_end_is_told_how_fast_its_deltas_come) {
  Transcript peer(plain_options());
  peer.open_fresh('a');
  starling::wire::Delta delta{.exchange = {1}, .payload = starling::base::Bytes(1000)};
  delta.bandwidth = 125e3;
  peer.on(Received{peer_named('a'), delta, 10ms});
  peer.encoded();
  BOOST_TEST(peer.sent->bandwidth == 100e3F, boost::test_tools::tolerance(1e-6F));
  BOOST_TEST(peer.core.links().front().bandwidth == 125e3);
}

BOOST_AUTO_TEST_CASE(a_delta_holds_its_link_for_as_long_as_its_share_takes) {
  const Pace pace = used({.upload_limit = 8});  // 1 MB a second
  BOOST_TEST((pace.upload_time(1'000'000, 1) == 1s));
  BOOST_TEST((pace.upload_time(1'000'000, 4) == 4s));
  BOOST_TEST((pace.upload_time(1'000'000, 0) == 1s));
  BOOST_TEST((pace.upload_time(std::size_t{1} << 40, 1) == kUploadTimeMax));
}

BOOST_AUTO_TEST_CASE(a_share_of_computing_makes_exchanges_rarer) {
  // 4 ms an exchange, 40 ms a step.
  BOOST_TEST(used({.every = 2, .cpu_share = 0.05}).every(1) == 2U);
  BOOST_TEST(used({.every = 2, .cpu_share = 0.05}).every(4) == 8U);
  BOOST_TEST(used({.every = 2, .cpu_share = 1e-9}).every(4) == kEveryMax);
  BOOST_TEST(used({.every = 5'000, .cpu_share = 1e-9}).every(4) == 5'000U);
  BOOST_TEST(Pace({.every = 2, .cpu_share = 0.05}).every(4) == 2U);
}

BOOST_AUTO_TEST_CASE(a_link_waits_until_its_share_allows_the_next_delta) {
  Options options = plain_options();
  options.config.upload_limit = 8e-6;  // a byte a second; deltas of a transcript have four
  Transcript peer(options);
  peer.now = Time(10s);
  peer.open_fresh('a');
  BOOST_TEST(!peer.core.next_deadline().has_value());
  peer.encoded();
  peer.step(5);
  BOOST_TEST((peer.delta('a', 1) == Lines{"a: run commit 1 w 0.5"}));
  BOOST_TEST((peer.core.next_deadline() == Time(14s)));
  BOOST_TEST(peer.committed().empty());
  peer.now = Time(13s);
  BOOST_TEST(peer.expire().empty());
  peer.now = Time(14s);
  BOOST_TEST((peer.expire() == Lines{"a: run encode 2 at 2"}));
  BOOST_TEST(peer.encode->lag_factor_max == 1.0);
  BOOST_TEST(!peer.core.next_deadline().has_value());
}

BOOST_AUTO_TEST_CASE(each_link_has_its_own_share) {
  Options options = plain_options();
  options.config.upload_limit = 8e-6;
  Transcript peer(options);
  peer.open_fresh('a');
  peer.encoded();
  peer.open_fresh('b');
  peer.encoded();
  peer.delta('a', 1);
  BOOST_TEST((peer.core.next_deadline() == Time(4s)));
  peer.now = Time(4s);
  BOOST_TEST((peer.expire() == Lines{"a: run encode 2 at 2"}));
  BOOST_TEST((peer.delta('b', 1) == Lines{"b: run commit 1 w 0.3333"}));
  BOOST_TEST((peer.core.next_deadline() == Time(8s)));  // there were two when it was sent
}

BOOST_AUTO_TEST_SUITE_END()
