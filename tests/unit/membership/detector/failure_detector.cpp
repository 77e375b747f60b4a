#include "membership/detector/failure_detector.hpp"

#include <boost/test/unit_test.hpp>

#include "base/rng.hpp"
#include "membership/limits.hpp"

using namespace starling;
using namespace std::chrono_literals;
using membership::FailureDetector;

BOOST_AUTO_TEST_SUITE(failure_detector)

BOOST_AUTO_TEST_CASE(regular_beats_give_the_least_timeout) {
  base::Time now{1s};
  FailureDetector detector(1s, now);
  for (int i = 0; i < 100; ++i) detector.heartbeat(now += 1s);
  BOOST_TEST((detector.timeout() == 3s));
  BOOST_TEST((detector.deadline() == now + 3s));
}

BOOST_AUTO_TEST_CASE(irregular_beats_give_a_longer_timeout_up_to_the_bound) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    BOOST_TEST_CONTEXT("seed " << seed) {
      base::Rng rng(seed);
      base::Time now{1s};
      FailureDetector detector(1s, now);
      for (int i = 0; i < 100; ++i)
        detector.heartbeat(now += base::from_seconds(4 * rng.uniform()));
      BOOST_TEST((detector.timeout() > 4s));
      for (int i = 0; i < 10; ++i) detector.heartbeat(now += i % 2 == 0 ? 1s : 300s);
      BOOST_TEST((detector.timeout() == membership::kSilenceMax));
    }
  }
}

BOOST_AUTO_TEST_CASE(data_counts_as_heard_and_leaves_the_timeout_alone) {
  base::Time now{1s};
  FailureDetector detector(1s, now);
  const base::Duration before = detector.timeout();
  for (int i = 0; i < 1000; ++i) detector.heard(now += 1ms);
  BOOST_TEST((detector.timeout() == before));
  BOOST_TEST((detector.last_heard() == now));
}

BOOST_AUTO_TEST_CASE(heartbeats_behind_a_large_frame_leave_the_timeout_alone) {
  base::Time now{1s};
  FailureDetector detector(1s, now);
  for (int i = 0; i < 20; ++i) BOOST_TEST(detector.heartbeat(now += 1s));
  for (int i = 0; i < 160; ++i) {
    detector.part(now += 100ms);
    BOOST_TEST((detector.deadline() == now + 3s));
  }
  for (int i = 0; i < 16; ++i) BOOST_TEST(!detector.heartbeat(now += 1ms));
  BOOST_TEST((detector.timeout() == 3s));
  BOOST_TEST(detector.heartbeat(now += 1s));
  BOOST_TEST((detector.timeout() == 3s));
}

BOOST_AUTO_TEST_SUITE_END()
