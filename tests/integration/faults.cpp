// Peers that are killed or stand still while others train.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include <boost/test/unit_test.hpp>
#include <signal.h>

#include "harness.hpp"

namespace starling::integration {
namespace {

using namespace std::chrono_literals;

/// A peer that waited for a dead one would wait until its silence is suspicious: three heartbeats
/// of a second. Shorter pauses come only from a busy machine.
constexpr auto kGapMax = 2s;

/// The longest time for which a peer's step counter was seen to stand still while it trained, by
/// its control port. It is measured between the first and the last of equal answers, so that pauses
/// of this program do not count.
class GapMeter {
 public:
  explicit GapMeter(Peer& peer) : peer_(&peer) {}

  void look() {
    const auto asked = Clock::now();
    const auto status = peer_->status();
    if (!status || status->phase != "training") return;
    if (since_ && status->steps == steps_) {
      largest_ = std::max(largest_, asked - *since_);
    } else {
      steps_ = status->steps;
      since_ = Clock::now();
    }
  }
  [[nodiscard]] double largest_seconds() const {
    return std::chrono::duration<double>(largest_).count();
  }

 private:
  Peer* peer_;
  std::uint64_t steps_ = 0;
  std::optional<Clock::time_point> since_;
  Duration largest_{};
};

/// Four peers; one dies at a third of the run.
void check_death_of(std::size_t victim) {
  Swarm swarm(4, run_of(10s));
  BOOST_TEST_REQUIRE(swarm.reaches(swarm[victim], 0.33), "the run did not get to the fault");
  swarm.kill(victim);
  std::vector<GapMeter> meters;
  for (std::size_t i = 0; i < swarm.size(); ++i) {
    if (i != victim) meters.emplace_back(swarm[i]);
  }
  const std::size_t witness = victim == 0 ? 1 : 0;
  const std::string name = swarm[victim].name();
  bool dead = false;
  BOOST_TEST_REQUIRE(eventually([&] {
    for (GapMeter& meter : meters) meter.look();
    dead = dead || swarm[witness].state_of(name) == "dead";
    return !swarm[witness].runs();
  }));
  BOOST_TEST(dead, "the survivors did not take note of the death");
  swarm.require_end({victim});
  for (std::size_t i = 0; i < swarm.size(); ++i) {
    if (i == victim) continue;
    BOOST_TEST_CONTEXT(swarm[i].name()) {
      const report::PeerSummary summary = swarm[i].summary();
      BOOST_TEST(summary.end == "done");
      BOOST_TEST(summary.accuracy.value_or(0) > kUsualAccuracy);
    }
  }
  BOOST_TEST(swarm.distance({victim}) < 0.01);
  for (const GapMeter& meter : meters) {
    BOOST_TEST(meter.largest_seconds() < std::chrono::duration<double>(kGapMax).count());
  }
}

BOOST_AUTO_TEST_CASE(survivors_finish_without_the_peer_that_was_started_first) {
  check_death_of(0);
}

BOOST_AUTO_TEST_CASE(survivors_finish_without_another_peer) { check_death_of(2); }

BOOST_AUTO_TEST_CASE(a_peer_that_stood_still_for_20_seconds_is_taken_back) {
  Swarm swarm(4, run_of(45s));
  Peer& sleeper = swarm[3];
  BOOST_TEST_REQUIRE(swarm.reaches(sleeper, 0.1), "the run did not get to the fault");
  sleeper.process().signal(SIGSTOP);
  const auto stopped = Clock::now();
  const auto then = swarm[0].status();
  BOOST_TEST_REQUIRE(then.has_value());
  bool dead = false;
  BOOST_TEST_REQUIRE(eventually([&] {
    dead = dead || swarm[0].state_of(sleeper.name()) == "dead";
    return Clock::now() - stopped >= 20s;
  }));
  BOOST_TEST(dead, "nobody missed the peer that stood still");
  const auto status = swarm[0].status();
  BOOST_TEST_REQUIRE(status.has_value());
  BOOST_TEST(status->steps > then->steps + 100);
  BOOST_TEST_REQUIRE(status->phase == "training", "the run ended before the pause did");
  sleeper.process().signal(SIGCONT);
  BOOST_TEST(
      eventually([&] { return swarm[0].state_of(sleeper.name()) == "alive" || !swarm[0].runs(); }));
  BOOST_TEST(swarm[0].runs(), "the run ended before the peer was taken back");
  swarm.require_end();
  const double usual = swarm[0].summary().accuracy.value_or(0);
  const report::PeerSummary summary = sleeper.summary();
  BOOST_TEST(summary.end == "done");
  BOOST_TEST(std::abs(summary.accuracy.value_or(0) - usual) < 0.01);
  BOOST_TEST(swarm.distance() < 0.01);
}

BOOST_AUTO_TEST_CASE(peers_end_together_and_name_the_one_that_stood_still_before_the_end) {
  Swarm swarm(6, run_of(15s));
  constexpr std::size_t kLate = 5;
  BOOST_TEST_REQUIRE(swarm.reaches(swarm[kLate], 0.9), "the run did not get to the fault");
  swarm[kLate].process().signal(SIGSTOP);
  std::vector<std::optional<Clock::time_point>> ends(kLate);
  BOOST_TEST_REQUIRE(eventually(
      [&] {
        for (std::size_t i = 0; i < kLate; ++i) {
          if (!ends[i] && !swarm[i].runs()) ends[i] = Clock::now();
        }
        return std::ranges::all_of(ends, [](const auto& end) { return end.has_value(); });
      },
      kPatience, 20ms));
  const auto [first, last] = std::ranges::minmax(ends);
  BOOST_TEST(std::chrono::duration<double>(*last - *first).count() < 3.0);
  swarm.require_end({kLate});
  std::size_t named = 0;
  for (std::size_t i = 0; i < kLate; ++i) {
    const report::PeerSummary summary = swarm[i].summary();
    BOOST_TEST(summary.settled.value_or(false));
    BOOST_TEST(summary.left_out.size() <= 1U);
    for (const report::LeftOut& one : summary.left_out) {
      named += one.name == swarm[kLate].name() ? 1 : 0;
    }
  }
  BOOST_TEST(named >= 3U);  // its neighbours
}

}  // namespace
}  // namespace starling::integration
