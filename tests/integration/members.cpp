// Peers that come late, come back, or do not belong.
#include <chrono>
#include <cmath>
#include <optional>
#include <string>

#include <boost/test/unit_test.hpp>
#include <signal.h>

#include "harness.hpp"

namespace starling::integration {
namespace {

using namespace std::chrono_literals;

BOOST_AUTO_TEST_CASE(a_late_joiner_reaches_the_accuracy_of_the_swarm) {
  Swarm swarm(3, run_of(12s));
  BOOST_TEST_REQUIRE(swarm.reaches(swarm[0], 0.4), "the run did not get to the joining");
  Peer& late = swarm.add("late", swarm[1].address());
  swarm.require_end();
  const double usual = swarm[0].summary().accuracy.value_or(0);
  const report::PeerSummary summary = late.summary();
  BOOST_TEST(usual > kUsualAccuracy);
  BOOST_TEST(summary.end == "done");
  BOOST_TEST(summary.steps > 0U);
  BOOST_TEST(summary.bytes_received.keyframe > 0U, "it adopted nobody's replica");
  BOOST_TEST(std::abs(summary.accuracy.value_or(0) - usual) < 0.01);
  BOOST_TEST(swarm.distance() < 0.01);
}

BOOST_AUTO_TEST_CASE(a_killed_peer_resumes_from_its_checkpoint_and_is_taken_back) {
  Swarm swarm(4, run_of(12s));
  constexpr std::size_t kVictim = 2;
  const std::string name = swarm[kVictim].name();
  const std::string dir = swarm[kVictim].dir();
  BOOST_TEST_REQUIRE(swarm.reaches(swarm[kVictim], 0.3), "the run did not get to the fault");
  const Ended asked = run(swarm.folder(), {"checkpoint", "--peer", dir});
  BOOST_TEST_REQUIRE(asked.code.value_or(-1) == 0, asked.err);
  BOOST_TEST_REQUIRE(eventually([&] { return !checkpoints_of(dir).empty(); }));
  const std::uint64_t saved = checkpoints_of(dir).back();
  swarm.kill(kVictim);

  Peer& again = swarm.add(name, swarm[0].address());
  std::optional<Status> first;
  BOOST_TEST_REQUIRE(eventually([&] { return (first = again.status()) || !again.runs(); }));
  BOOST_TEST_REQUIRE(first.has_value(), again.process().err());
  BOOST_TEST(saved > 0U);
  BOOST_TEST(first->steps >= saved);
  BOOST_TEST(eventually([&] {
    const auto status = again.status();
    return (status && status->links > 0 && swarm[0].state_of(name) == "alive") || !again.runs();
  }));
  BOOST_TEST(again.runs(), "the run ended before the peer was taken back");
  swarm.require_end({kVictim});
  const double usual = swarm[0].summary().accuracy.value_or(0);
  BOOST_TEST(std::abs(again.summary().accuracy.value_or(0) - usual) < 0.01);
  BOOST_TEST(swarm.distance({kVictim}) < 0.01);
}

BOOST_AUTO_TEST_CASE(who_left_comes_back_though_the_peer_it_had_joined_by_is_gone) {
  Swarm swarm(3, {"run.samples=1000000000"});
  constexpr std::size_t kFirst = 0;
  constexpr std::size_t kAway = 1;
  const std::string first = swarm[kFirst].address();
  const std::string name = swarm[kAway].name();
  BOOST_TEST_REQUIRE(eventually([&] {
    const auto status = swarm[kAway].status();
    return status && status->steps > 0 && status->links == 2;
  }));
  swarm[kAway].process().signal(SIGINT);
  BOOST_TEST_REQUIRE(swarm[kAway].process().wait().value_or(-1) == 0);
  swarm.kill(kFirst);

  Peer& again = swarm.add(name, first);
  BOOST_TEST(eventually([&] {
    const auto status = again.status();
    return status && status->links > 0 && swarm[2].state_of(name) == "alive";
  }));
}

BOOST_AUTO_TEST_CASE(a_peer_with_another_run_file_is_refused_and_told_the_difference) {
  Swarm swarm(2, {"run.samples=1000000000"});
  BOOST_TEST_REQUIRE(eventually([&] {
    const auto status = swarm[0].status();
    return status && status->exchanges > 0;
  }));
  const Ended refused =
      run(swarm.folder(), {"up", mlp_run_file(), "--name", "stranger", "--dir",
                           swarm.folder() / "stranger", "--listen", "127.0.0.1:0", "--join",
                           swarm[0].address(), "--set", "run.samples=1000000000", "--set",
                           "train.optimizer=adamw", "--set", "swarm.wait_for=1"});
  BOOST_TEST(refused.code.value_or(-1) == 3);
  BOOST_TEST(refused.err.find("train.optimizer") != std::string::npos, refused.err);
  BOOST_TEST(refused.err.find("adamw") != std::string::npos, refused.err);

  const auto before = swarm[0].status();
  BOOST_TEST_REQUIRE(before.has_value());
  BOOST_TEST(eventually([&] {
               const auto status = swarm[0].status();
               return status && status->exchanges > before->exchanges &&
                      status->steps > before->steps;
             }),
             "the swarm does not go on");
  BOOST_TEST(swarm[0].state_of("stranger") == "unknown");
}

BOOST_AUTO_TEST_CASE(only_who_has_the_swarms_secret_gets_in) {
  const testing::TemporaryFolder folder;
  const std::string file = folder / "swarm.secret";
  const Ended made = run(folder, {"keygen", file});
  BOOST_TEST_REQUIRE(made.code.value_or(-1) == 0, made.err);
  BOOST_TEST(run(folder, {"keygen", file}).code.value_or(-1) == 2);
  const Arguments set = {"run.samples=1000000000", "security.secret=" + file};
  Peer first(folder, "first", "", set);
  const std::string address = first.address();
  BOOST_TEST_REQUIRE(!address.empty(), first.process().err());
  Peer second(folder, "second", address, set);
  BOOST_TEST(eventually([&] {
    const auto status = second.status();
    return status && status->links == 1 && status->exchanges > 0;
  }));

  const Ended stranger =
      run(folder, {"up", mlp_run_file(), "--name", "stranger", "--dir", folder / "stranger",
                   "--listen", "127.0.0.1:0", "--join", address, "--set", "run.samples=6400"});
  BOOST_TEST(stranger.code.value_or(-1) == 3, stranger.err);
  BOOST_TEST(stranger.err.find("security.secret") != std::string::npos, stranger.err);
  BOOST_TEST(first.state_of("stranger") == "unknown");
  const auto status = first.status();
  BOOST_TEST_REQUIRE(status.has_value());
  BOOST_TEST(status->links == 1U);
}

}  // namespace
}  // namespace starling::integration
