// Peers that are asked to end.
#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <string>

#include <boost/test/unit_test.hpp>
#include <signal.h>

#include "control_client.hpp"
#include "harness.hpp"
#include "report/peer_file.hpp"

namespace starling::integration {
namespace {

using namespace std::chrono_literals;

bool says_interrupted(const Peer& peer) {
  return text_of(peer.dir() + "/log.jsonl").find("interrupted") != std::string::npos;
}

BOOST_AUTO_TEST_CASE(an_interrupted_peer_saves_and_leaves_and_the_others_go_on) {
  Swarm swarm(3, {run_of(10s)});
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

/// Once it trains; the second time as soon as it has taken the first one.
void signal_twice(Peer& peer, int number) {
  BOOST_TEST_REQUIRE(eventually([&] {
                       const auto status = peer.status();
                       return status && status->steps > 0;
                     }),
                     peer.process().err());
  peer.process().signal(number);
  BOOST_TEST_REQUIRE(eventually([&] { return says_interrupted(peer); }, kPatience, 1ms));
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

/// Of a swarm of two. Before its first step a peer may not be listening to signals yet.
bool both_train(const std::string& dir) {
  return std::ranges::all_of(std::array{"/peer-1", "/peer-2"}, [&](const char* peer) {
    const auto file = report::read_peer_file(dir + peer);
    const auto reply = file ? peers::ask(file->control, "/status")
                            : base::Result<std::string>(tl::unexpect, file.error());
    return reply && reply->find("\"phase\": \"training\"") != std::string::npos;
  });
}

BOOST_AUTO_TEST_CASE(an_interrupted_swarm_command_lets_all_its_peers_leave) {
  const testing::TemporaryFolder folder;
  const std::string dir = folder / "the-swarm";
  Process swarm({"swarm", mlp_run_file(), "-n", "2", "--dir", dir, "--json", "--set",
                 "run.samples=1000000000", "--set", "train.batch=16384"},
                folder / "swarm");
  BOOST_TEST_REQUIRE(eventually([&] { return both_train(dir) || swarm.exit_code(); }), swarm.err());
  swarm.signal(SIGINT);
  swarm.signal(SIGTERM);  // no second Ctrl-C
  BOOST_TEST(swarm.wait().value_or(-1) == 0);
  const auto summary = report::swarm_summary_from_json(text_of(dir + "/summary.json"));
  BOOST_TEST_REQUIRE(summary.has_value(), swarm.err());
  BOOST_TEST(summary->peers.size() == 2U);
  for (const report::PeerSummary& peer : summary->peers) BOOST_TEST(peer.end == "left");
}

BOOST_AUTO_TEST_CASE(a_swarm_command_says_that_a_peer_was_stopped_though_others_have_saved) {
  const testing::TemporaryFolder folder;
  const std::string dir = folder / "the-swarm";
  Process swarm({"swarm", mlp_run_file(), "-n", "2", "--dir", dir, "--json", "--set",
                 "run.samples=1000000000", "--set", "train.batch=16384"},
                folder / "swarm");
  BOOST_TEST_REQUIRE(eventually([&] { return both_train(dir) || swarm.exit_code(); }), swarm.err());
  const auto lingers = static_cast<pid_t>(report::read_peer_file(dir + "/peer-2")->pid);
  BOOST_REQUIRE(kill(lingers, SIGSTOP) == 0);
  swarm.signal(SIGINT);
  BOOST_TEST_REQUIRE(
      eventually([&] { return std::filesystem::exists(dir + "/peer-1/summary.json"); }));
  // The second interrupt wakes who stands still, and hears of the first one only then.
  swarm.signal(SIGINT);
  BOOST_TEST_REQUIRE(eventually(
      [&] { return text_of(dir + "/peer-2/log.jsonl").find("interrupted") != std::string::npos; },
      kPatience, 1ms));
  kill(lingers, SIGINT);
  BOOST_TEST(swarm.wait().value_or(-1) == 130);
  BOOST_TEST(swarm.err().find("peer-2 was stopped") != std::string::npos, swarm.err());
}

}  // namespace
}  // namespace starling::integration
