#include "exchange/pace.hpp"

#include <chrono>
#include <utility>

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
    pace.stepped(StepNumber{step}, Time(step * 50ms));
    pace.computed(40ms);
    pace.wrote(static_cast<std::size_t>(kWholeBytes * kUsual), kUsual, 3ms);
    pace.committed(1ms);
  }
  return pace;
}

double megabits(double bytes, Duration time) {
  return bytes * 8e-6 / starling::base::seconds(time);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(pace)

BOOST_AUTO_TEST_CASE(without_limits_all_is_as_the_run_file_says) {
  const Pace pace = used({.every = 3});
  BOOST_TEST(pace.every(4) == 3U);
  BOOST_TEST(pace.density(kUsual, 0.1, 4) == kUsual);
  BOOST_TEST(pace.hold(1'000'000, 4).count() == 0);
  BOOST_TEST(pace.lag_factor_max() == kLagFactorMax);
}

BOOST_AUTO_TEST_CASE(densities_follow_a_link_s_share_of_the_upload) {
  // 10 kB each 100 ms are 0.8 Mbit/s a link.
  for (const double of_usual : {0.25, 1.0, 4.0}) {
    const Pace pace = used({.every = 2, .upload_limit = 2 * 0.8 * of_usual});
    const double density = pace.density(kUsual, 0.1, 2);
    const double used_up = megabits(kWholeBytes * density, 100ms);
    BOOST_TEST(used_up <= 0.8 * of_usual);
    BOOST_TEST(used_up > 0.9 * 0.8 * of_usual);
    BOOST_TEST(pace.lag_factor_max() == 1.0);
  }
}

BOOST_AUTO_TEST_CASE(within_bounds) {
  BOOST_TEST(used({.every = 2, .upload_limit = 1e-6}).density(kUsual, 0.1, 2) ==
             kUsual / kDensityFactorMax);
  BOOST_TEST(used({.every = 2, .upload_limit = 1e6}).density(kUsual, 0.1, 2) ==
             kUsual * kDensityFactorMax);
  const Pace fresh({.upload_limit = 1});
  BOOST_TEST(fresh.density(kUsual, 0.1, 2) == kUsual);  // nothing is known yet
}

BOOST_AUTO_TEST_CASE(densities_follow_drift_around_the_critical_one) {
  const Pace pace({.critical_drift = 0.1});
  BOOST_TEST(pace.density(kUsual, 0.1, 4) == kUsual, boost::test_tools::tolerance(1e-12));
  BOOST_TEST(pace.density(kUsual, 0.2, 4) == 2 * kUsual, boost::test_tools::tolerance(1e-12));
  BOOST_TEST(pace.density(kUsual, 0.05, 4) == kUsual / 2, boost::test_tools::tolerance(1e-12));
  BOOST_TEST(pace.density(kUsual, 100, 4) == kUsual * kDriftFactorMax);
  BOOST_TEST(pace.density(kUsual, 1e-6, 4) == kUsual / kDriftFactorMax);
  BOOST_TEST(pace.density(kUsual, 0, 4) == kUsual);  // not known yet
  // A line that is limited is used as it is, and no more.
  const Config limited{.every = 2, .critical_drift = 0.01, .upload_limit = 2};
  BOOST_TEST(used(limited).density(kUsual, 0.1, 2) == used(limited).density(kUsual, 0.001, 2));
}

BOOST_AUTO_TEST_CASE(a_delta_holds_its_link_for_as_long_as_its_share_takes) {
  const Pace pace = used({.upload_limit = 8});  // 1 MB a second
  BOOST_TEST((pace.hold(1'000'000, 1) == 1s));
  BOOST_TEST((pace.hold(1'000'000, 4) == 4s));
  BOOST_TEST((pace.hold(1'000'000, 0) == 1s));
  BOOST_TEST((pace.hold(std::size_t{1} << 40, 1) == kHoldMax));
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
