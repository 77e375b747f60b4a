// Swarms in which nothing goes wrong.
#include <csignal>
#include <filesystem>
#include <fstream>

#include <boost/test/unit_test.hpp>

#include "harness.hpp"
#include "report/peer_file.hpp"
#include "tests/swarm_summary.hpp"

namespace starling::integration {
namespace {

std::uint64_t sum_of(const report::BytesByPurpose& bytes) {
  return bytes.delta + bytes.keyframe + bytes.membership + bytes.reduce + bytes.other;
}

/// Runs `starling swarm` to its end; returns its summary.
report::SwarmSummary run_swarm(const testing::TemporaryFolder& folder, const Arguments& set) {
  Arguments arguments{"swarm", mlp_run_file(), "-n", "4", "--dir", folder / "the-swarm", "--json"};
  for (const std::string& assignment : set) {
    arguments.insert(arguments.end(), {"--set", assignment});
  }
  const Ended ended = run(folder, arguments);
  BOOST_TEST_REQUIRE(ended.code.value_or(-1) == 0, ended.err);
  auto summary = testing::read_swarm_summary(ended.out);
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
  // Bytes in flight when a link ends are counted only by their sender.
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
  BOOST_TEST(eventually([&] { return asked() == 4; }));  // without an answer
}

BOOST_AUTO_TEST_CASE(a_swarm_goes_on_when_nobody_reads_what_it_prints_any_more) {
  const testing::TemporaryFolder folder;
  const std::string dir = folder / "the-swarm";
  Process swarm("/bin/sh",
                {"-c", R"({ "$0" swarm "$1" -n 2 --dir "$2" --set run.samples=6400; } | true)",
                 program(), mlp_run_file(), dir},
                folder / "swarm");
  BOOST_TEST(swarm.wait().has_value());
  BOOST_TEST(testing::read_swarm_summary(text_of(dir + "/summary.json")).has_value(), swarm.err());
}

BOOST_AUTO_TEST_CASE(a_swarm_goes_on_where_it_was_and_starts_anew_only_when_told_to) {
  const testing::TemporaryFolder folder;
  const std::string dir = folder / "the-swarm";
  const auto steps_of = [&](const Arguments& more, const std::string& samples) {
    Arguments arguments{"swarm", mlp_run_file(),          "-n", "2", "--dir", dir, "--json",
                        "--set", "run.samples=" + samples};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Ended ended = run(folder, arguments);
    const auto summary = testing::read_swarm_summary(ended.out);
    return ended.code == 0 && summary ? summary->swarm.steps : 0;
  };
  BOOST_TEST(steps_of({}, "12800") >= 200U);
  const std::uint64_t checkpoint = checkpoints_of(dir + "/peer-1").back();
  BOOST_TEST(steps_of({}, "12800") >= 200U);
  BOOST_TEST(checkpoints_of(dir + "/peer-1").back() == checkpoint);
  // Another run does not touch the existing files.
  const std::string before = text_of(dir + "/peer-1/run.toml");
  BOOST_TEST(steps_of({}, "6400") == 0U);
  BOOST_TEST(text_of(dir + "/peer-1/run.toml") == before);
  BOOST_TEST(checkpoints_of(dir + "/peer-1").back() == checkpoint);
  // Half the samples: the steps of both together show it; each one's share depends on load.
  const std::uint64_t anew = steps_of({"--anew"}, "6400");
  BOOST_TEST(anew >= 100U);
  BOOST_TEST(anew < 200U);
}

BOOST_AUTO_TEST_CASE(the_exit_code_of_a_first_peer_that_does_not_start_is_the_swarm_s) {
  const testing::TemporaryFolder folder;
  const auto start = [&](const std::string& set) {
    return run(folder,
               {"swarm", mlp_run_file(), "-n", "2", "--dir", folder / "the-swarm", "--set", set});
  };
  const Ended device = start("train.device=cuda:63");
  BOOST_TEST(device.code.value_or(-1) == 6, device.err);
  BOOST_TEST(has(device.err, "the first peer did not start"), device.err);
  const Ended data = start("data.path=/no/such/folder");
  BOOST_TEST(data.code.value_or(-1) == 3, data.err);
}

// The long command line that a peer prints comes before the reason why it ended.
BOOST_AUTO_TEST_CASE(why_a_peer_failed_is_told_however_much_it_said_before) {
  const testing::TemporaryFolder folder;
  const std::string dir = folder / "the-swarm";
  Arguments arguments{"swarm", long_run_file(folder), "-n", "1", "--dir", dir};
  for (int i = 0; i < 4000; ++i) arguments.insert(arguments.end(), {"--set", "train.lr=100"});
  const Ended ended = run(folder, arguments);
  BOOST_TEST(ended.code.value_or(-1) == 5, ended.err);
  BOOST_TEST(std::filesystem::file_size(dir + "/peer-1/output.txt") > std::uint64_t{1} << 16);
  BOOST_TEST(has(ended.err, "peer-1 failed: starling: error: the loss is "), ended.err);
}

BOOST_AUTO_TEST_CASE(a_peer_that_a_signal_ended_is_named) {
  const testing::TemporaryFolder folder;
  const std::string dir = folder / "the-swarm";
  Process swarm(
      {"swarm", mlp_run_file(), "-n", "2", "--dir", dir, "--set", "run.samples=1000000000"},
      folder / "swarm");
  for (const char* peer : {"/peer-1", "/peer-2"}) {
    BOOST_TEST_REQUIRE(eventually([&] { return report::read_peer_file(dir + peer).has_value(); }),
                       swarm.err());
  }
  const pid_t victim = report::read_peer_file(dir + "/peer-2")->pid;
  kill(victim, SIGABRT);
  BOOST_TEST_REQUIRE(eventually([&] { return kill(victim, 0) != 0; }));  // the swarm has seen it
  swarm.signal(SIGINT);
  BOOST_TEST(swarm.wait().value_or(-1) == 0, swarm.err());
  BOOST_TEST(has(swarm.err(), "peer-2 was killed by signal 6 (Aborted)"), swarm.err());
}

BOOST_AUTO_TEST_CASE(a_peer_that_could_not_save_takes_nothing_from_the_summary) {
  const testing::TemporaryFolder folder;
  const std::string dir = folder / "the-swarm";
  std::filesystem::create_directories(dir + "/peer-2");
  std::ofstream(dir + "/peer-2/lock");
  std::filesystem::create_symlink("nowhere", dir + "/peer-2/checkpoints");
  const Ended ended = run(folder, {"swarm", mlp_run_file(), "-n", "2", "--dir", dir, "--json",
                                   "--set", "run.samples=6000"});
  BOOST_TEST(ended.code.value_or(-1) == 0, ended.err);
  BOOST_TEST(has(ended.err, "peer-2 failed"), ended.err);
  const auto summary = testing::read_swarm_summary(ended.out);
  BOOST_TEST_REQUIRE(summary.has_value(), ended.out);
  BOOST_TEST(summary->peers.size() == 2U);
  BOOST_TEST(!summary->distance.has_value());
  BOOST_TEST(std::filesystem::exists(dir + "/summary.json"));
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

  const std::string of_peer = dir + "/peer-1";
  const Ended within = run(folder, {"swarm", mlp_run_file(), "-n", "1", "--dir", of_peer});
  BOOST_TEST(within.code.value_or(-1) == 2);
  BOOST_TEST(within.err.find("the folder of one peer") != std::string::npos, within.err);
  BOOST_TEST(!std::filesystem::exists(of_peer + "/peer-1"));
}

}  // namespace
}  // namespace starling::integration
