// Peers that are asked to end.
#include <chrono>
#include <filesystem>
#include <string>

#include <boost/test/unit_test.hpp>
#include <signal.h>

#include "control_client.hpp"
#include "harness.hpp"
#include "report/peer_file.hpp"
#include "tests/swarm_summary.hpp"

namespace starling::integration {
namespace {

using namespace std::chrono_literals;

/// Whether the peer of a folder does.
bool says_interrupted(const std::string& dir) {
  return text_of(dir + "/log.jsonl").find("interrupted") != std::string::npos;
}

BOOST_AUTO_TEST_CASE(an_interrupted_peer_saves_and_leaves_and_the_others_go_on) {
  Swarm swarm(3, run_of(10s));
  constexpr std::size_t kLeaver = 1;
  Peer& leaver = swarm[kLeaver];
  BOOST_TEST_REQUIRE(swarm.reaches(leaver, 0.3), "the run did not get to the interrupt");
  leaver.process().signal(SIGINT);
  BOOST_TEST(leaver.process().wait().value_or(-1) == 0);
  const report::PeerSummary left = leaver.summary();
  BOOST_TEST(left.end == "left");
  BOOST_TEST(left.steps > 0U);
  const auto checkpoints = checkpoints_of(leaver.dir());
  BOOST_TEST_REQUIRE(!checkpoints.empty());
  BOOST_TEST(checkpoints.back() == left.steps);
  BOOST_TEST(
      eventually([&] { return swarm[0].state_of(leaver.name()) == "left" || !swarm[0].runs(); }));
  BOOST_TEST(swarm[0].runs(), "the run ended before the others knew that the peer left");
  swarm.require_end({kLeaver});
  BOOST_TEST(swarm[0].summary().accuracy.value_or(0) > kUsualAccuracy);
  BOOST_TEST(swarm.distance({kLeaver}) < 0.01);
}

/// Leaving waits for the steps under way; with this batch they take a good while.
const Arguments kLongSteps{"run.samples=1000000000", "train.batch=16384"};

/// Interrupts it once it trains; the second time as soon as it has taken the first one.
void signal_twice(Peer& peer, int number) {
  BOOST_TEST_REQUIRE(eventually([&] {
                       const auto status = peer.status();
                       return status && status->steps > 0;
                     }),
                     peer.process().err());
  peer.process().signal(number);
  BOOST_TEST_REQUIRE(eventually([&] { return says_interrupted(peer.dir()); }, kPatience, 1ms));
  peer.process().signal(number);
}

BOOST_AUTO_TEST_CASE(a_second_interrupt_stops_at_once) {
  const testing::TemporaryFolder folder;
  Peer peer(folder, "peer", "", kLongSteps);
  signal_twice(peer, SIGINT);
  BOOST_TEST(peer.process().wait().value_or(-1) == 130);
  // On the terminal, too.
  BOOST_TEST(peer.process().err().find("interrupted: saving and leaving; interrupt again") !=
             std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_signal_that_comes_twice_of_itself_is_one_interrupt) {
  const testing::TemporaryFolder folder;
  Peer peer(folder, "peer", "", kLongSteps);
  signal_twice(peer, SIGTERM);
  BOOST_TEST(peer.process().wait().value_or(-1) == 0);
  const auto checkpoints = checkpoints_of(peer.dir());
  BOOST_TEST_REQUIRE(!checkpoints.empty());
  BOOST_TEST(checkpoints.back() == peer.summary().steps);
}

/// A swarm command with two peers, whose steps take long, once both train: before its first step a
/// peer may not be listening to signals yet.
struct SwarmOfTwo {
  testing::TemporaryFolder folder;
  std::string dir = folder / "the-swarm";
  Process process{{"swarm", mlp_run_file(), "-n", "2", "--dir", dir, "--json", "--set",
                   kLongSteps[0], "--set", kLongSteps[1]},
                  folder / "swarm"};

  SwarmOfTwo() {
    BOOST_TEST_REQUIRE(
        eventually([&] { return (trains("/peer-1") && trains("/peer-2")) || process.exit_code(); }),
        process.err());
  }

  [[nodiscard]] bool trains(const char* peer) const {
    const auto file = report::read_peer_file(dir + peer);
    const auto reply = file ? peers::ask(file->control, "/status")
                            : base::Result<std::string>(tl::unexpect, file.error());
    return reply && reply->find("\"phase\": \"training\"") != std::string::npos;
  }
};

BOOST_AUTO_TEST_CASE(an_interrupted_swarm_command_lets_all_its_peers_leave) {
  SwarmOfTwo swarm;
  swarm.process.signal(SIGINT);
  swarm.process.signal(SIGTERM);  // no second Ctrl-C
  BOOST_TEST(swarm.process.wait().value_or(-1) == 0);
  const auto summary = testing::read_swarm_summary(text_of(swarm.dir + "/summary.json"));
  BOOST_TEST_REQUIRE(summary.has_value(), swarm.process.err());
  BOOST_TEST(summary->peers.size() == 2U);
  for (const report::PeerSummary& peer : summary->peers) BOOST_TEST(peer.end == "left");
}

BOOST_AUTO_TEST_CASE(a_swarm_command_says_that_a_peer_was_stopped_though_others_have_saved) {
  SwarmOfTwo swarm;
  const auto lingers = static_cast<pid_t>(report::read_peer_file(swarm.dir + "/peer-2")->pid);
  BOOST_REQUIRE(kill(lingers, SIGSTOP) == 0);
  swarm.process.signal(SIGINT);
  BOOST_TEST_REQUIRE(
      eventually([&] { return std::filesystem::exists(swarm.dir + "/peer-1/summary.json"); }));
  // The second interrupt wakes the stopped process: only then does it hear of the first one.
  swarm.process.signal(SIGINT);
  BOOST_TEST_REQUIRE(
      eventually([&] { return says_interrupted(swarm.dir + "/peer-2"); }, kPatience, 1ms));
  kill(lingers, SIGINT);
  BOOST_TEST(swarm.process.wait().value_or(-1) == 130);
  BOOST_TEST(swarm.process.err().find("peer-2 was stopped") != std::string::npos,
             swarm.process.err());
}

}  // namespace
}  // namespace starling::integration
