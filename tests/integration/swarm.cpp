// Swarms in which nothing goes wrong.
#include <csignal>
#include <filesystem>
#include <fstream>

#include <boost/test/unit_test.hpp>

#include "harness.hpp"

namespace starling::integration {
namespace {

std::uint64_t sum_of(const report::BytesByPurpose& bytes) {
  return bytes.delta + bytes.keyframe + bytes.membership + bytes.reduce + bytes.other;
}

/// `starling swarm` to its end; its summary.
report::SwarmSummary run_swarm(const testing::TemporaryFolder& folder, const Arguments& set) {
  Arguments arguments{"swarm", mlp_run_file(), "-n", "4", "--dir", folder / "the-swarm", "--json"};
  for (const std::string& assignment : set) {
    arguments.insert(arguments.end(), {"--set", assignment});
  }
  const Ended ended = run(folder, arguments);
  BOOST_TEST_REQUIRE(ended.code.value_or(-1) == 0, ended.err);
  auto summary = report::swarm_summary_from_json(ended.out);
  BOOST_TEST_REQUIRE(summary.has_value(), ended.out);
  BOOST_TEST_REQUIRE(summary->peers.size() == 4);
  return std::move(*summary);
}

BOOST_AUTO_TEST_CASE(four_peers_train_and_agree) {
  const testing::TemporaryFolder folder;
  const report::SwarmSummary swarm = run_swarm(folder, {"run.epochs=3"});
  for (const report::PeerSummary& peer : swarm.peers) {
    BOOST_TEST_CONTEXT(peer.name) {
      BOOST_TEST(peer.end == "done");
      BOOST_TEST(peer.accuracy.value_or(0) > kUsualAccuracy);
      BOOST_TEST(peer.steps > 0U);
      BOOST_TEST(peer.exchanges > 0U);
      BOOST_TEST(peer.bytes_sent.total == sum_of(peer.bytes_sent));
      BOOST_TEST(peer.bytes_received.total == sum_of(peer.bytes_received));
      BOOST_TEST(peer.bytes_sent.reduce == 0U);
    }
  }
  BOOST_TEST(swarm.distance.value_or(1) < 0.01);
  BOOST_TEST(swarm.swarm.samples >= 180'000U);
  // What is on its way when a link ends is counted by its sender alone.
  const auto sent = static_cast<double>(swarm.swarm.bytes_sent.total);
  const auto received = static_cast<double>(swarm.swarm.bytes_received.total);
  BOOST_TEST(received <= sent);
  BOOST_TEST(received >= 0.99 * sent);
}

BOOST_AUTO_TEST_CASE(without_exchanges_no_delta_is_sent_and_replicas_differ) {
  const testing::TemporaryFolder folder;
  const report::SwarmSummary swarm = run_swarm(folder, {"run.samples=60000", "exchange.mode=none"});
  BOOST_TEST(swarm.swarm.end == "done");
  BOOST_TEST(swarm.swarm.exchanges == 0U);
  BOOST_TEST(swarm.swarm.bytes_sent.delta == 0U);
  BOOST_TEST(swarm.swarm.bytes_sent.keyframe == 0U);
  BOOST_TEST(swarm.swarm.bytes_sent.membership > 0U);
  BOOST_TEST(swarm.distance.value_or(0) > 0.01);
}

BOOST_AUTO_TEST_CASE(a_swarm_that_is_killed_leaves_no_peers_behind) {
  const testing::TemporaryFolder folder;
  const std::string dir = folder / "the-swarm";
  Process swarm(
      {"swarm", mlp_run_file(), "-n", "2", "--dir", dir, "--set", "run.samples=1000000000"},
      folder / "swarm");
  const auto asked = [&] { return run(folder, {"status", "--peer", dir + "/peer-2"}).code; };
  BOOST_TEST_REQUIRE(eventually([&] { return asked() == 0; }), swarm.err());
  swarm.signal(SIGKILL);
  BOOST_TEST(eventually([&] { return asked() == 4; }));  // nobody answers
}

BOOST_AUTO_TEST_CASE(a_swarm_goes_on_where_it_was_and_starts_anew_only_when_told_to) {
  const testing::TemporaryFolder folder;
  const std::string dir = folder / "the-swarm";
  const auto steps_of = [&](const Arguments& more, const std::string& samples) {
    Arguments arguments{"swarm", mlp_run_file(),          "-n", "2", "--dir", dir, "--json",
                        "--set", "run.samples=" + samples};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Ended ended = run(folder, arguments);
    const auto summary = report::swarm_summary_from_json(ended.out);
    return ended.code == 0 && summary ? summary->swarm.steps : 0;
  };
  BOOST_TEST(steps_of({}, "12800") >= 200U);
  const std::uint64_t checkpoint = checkpoints_of(dir + "/peer-1").back();
  BOOST_TEST(steps_of({}, "12800") >= 200U);
  BOOST_TEST(checkpoints_of(dir + "/peer-1").back() == checkpoint);
  // Another run does not touch what is there.
  const std::string before = text_of(dir + "/peer-1/run.toml");
  BOOST_TEST(steps_of({}, "6400") == 0U);
  BOOST_TEST(text_of(dir + "/peer-1/run.toml") == before);
  BOOST_TEST(checkpoints_of(dir + "/peer-1").back() == checkpoint);
  BOOST_TEST(steps_of({"--anew"}, "6400") >= 100U);
  BOOST_TEST(checkpoints_of(dir + "/peer-1").back() < checkpoint);
}

BOOST_AUTO_TEST_CASE(folders_that_are_in_use_or_not_a_peers_stay_as_they_are) {
  const testing::TemporaryFolder folder;
  const std::string dir = folder / "the-swarm";
  std::filesystem::create_directories(dir + "/peer-1");
  std::ofstream(dir + "/peer-1/thesis.txt") << "two years";
  const Arguments arguments{"swarm", mlp_run_file(), "-n", "1", "--dir", dir, "--anew"};
  BOOST_TEST(run(folder, arguments).code.value_or(-1) == 2);
  BOOST_TEST(text_of(dir + "/peer-1/thesis.txt") == "two years");

  std::filesystem::remove(dir + "/peer-1/thesis.txt");
  Process first(
      {"swarm", mlp_run_file(), "-n", "1", "--dir", dir, "--set", "run.samples=1000000000"},
      folder / "first");
  BOOST_TEST_REQUIRE(
      eventually([&] { return std::filesystem::exists(dir + "/peer-1/peer.json"); }));
  const Ended second = run(folder, arguments);
  BOOST_TEST(second.code.value_or(-1) == 2);
  BOOST_TEST(second.err.find("running") != std::string::npos, second.err);
  BOOST_TEST(!first.exit_code());
  BOOST_TEST(std::filesystem::exists(dir + "/peer-1/peer.json"));
}

}  // namespace
}  // namespace starling::integration
