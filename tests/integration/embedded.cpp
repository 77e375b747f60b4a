// Programs that train by themselves and embed a peer (include/starling/peer.hpp).
#include <cstdio>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include <boost/test/unit_test.hpp>
#include <signal.h>

#include "harness.hpp"
#include "runtime/swarm_distance.hpp"

namespace starling::integration {
namespace {

constexpr char kRun[] = R"([run]
name = "plane"
epochs = 8
[train]
lr = 0.05
batch = 16
schedule = "cosine"
[exchange]
every = 4
density = 0.05
buffers_every = 2
[swarm]
heartbeat = 0.2
[limits]
steps_per_second = 1000
)";

/// A program's output at its end.
struct Said {
  std::string how;
  std::string from;
  unsigned long long steps = 0;
  double away = 0;  ///< from the plane to be found
};

struct Programs {
  Programs() { write(kRun); }

  void write(const std::string& text) { std::ofstream(folder / "run.toml") << text; }
  /// Starts one; `more`: its further arguments.
  Peer& start(const std::string& name, const std::string& join, const std::string& data = "plane",
              const Arguments& more = {}) {
    Arguments arguments{folder / "run.toml", folder / name, join, data};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return *peers.emplace_back(
        std::make_unique<Peer>(STARLING_EMBEDDED_PEER, arguments, folder, name));
  }
  /// Requires that it ends with exit code 0.
  static Said end_of(Peer& peer) {
    BOOST_REQUIRE_EQUAL(peer.process().wait().value_or(-1), 0);
    Said said;
    char how[16] = "";
    char from[16] = "";
    BOOST_REQUIRE_EQUAL(std::sscanf(peer.process().out().c_str(), "%15s %15s %llu %lf", how, from,
                                    &said.steps, &said.away),
                        4);
    said.how = how;
    said.from = from;
    return said;
  }
  static bool reaches(Peer& peer, double progress) {
    return eventually([&] {
      const auto status = peer.status();
      return (status && status->progress >= progress) || !peer.runs();
    });
  }

  /// `starling leave` or `checkpoint`.
  void tell(Peer& peer, const std::string& command) const {
    const Ended asked = integration::run(folder, {command, "--peer", peer.dir()});
    BOOST_TEST_REQUIRE(asked.code.value_or(-1) == 0, asked.err);
  }

  testing::TemporaryFolder folder;
  std::vector<std::unique_ptr<Peer>> peers;
};

BOOST_FIXTURE_TEST_SUITE(embedded, Programs)

BOOST_AUTO_TEST_CASE(programs_agree_on_what_they_train_together) {
  write(std::string(kRun) + "[checkpoint]\nevery = 1\n");
  Peer& first = start("first", "");
  Peer& second = start("second", first.address());
  Peer& third = start("third", first.address());
  for (Peer* peer : {&first, &second, &third}) {
    const Said said = end_of(*peer);
    BOOST_TEST(said.how == "done");
    BOOST_TEST(said.from == "fresh");
    BOOST_TEST(said.steps > 100U);
    BOOST_TEST(said.away < 0.1);
    const report::PeerSummary summary = peer->summary();
    BOOST_TEST(summary.end == "done");
    BOOST_TEST(summary.exchanges > 0U);
    // Only the noise of the targets.
    BOOST_TEST(summary.loss.value_or(1) < 0.007);
  }
  const auto distance = runtime::replica_distance(
      {first.dir(), second.dir(), third.dir()}, base::Hash128::parse(first.summary().run).value());
  BOOST_REQUIRE(distance.has_value());
  BOOST_TEST(*distance < 0.01);
  const Ended exported = run(folder, {"export", first.dir(), "--out", folder / "plane"});
  BOOST_TEST(exported.code.value_or(-1) == 0, exported.err);
}

BOOST_AUTO_TEST_CASE(a_killed_program_goes_on_from_its_checkpoint) {
  Peer& first = start("first", "");
  Peer& second = start("second", first.address());
  BOOST_TEST_REQUIRE(reaches(second, 0.2));
  tell(second, "checkpoint");
  BOOST_TEST_REQUIRE(eventually([&] { return !checkpoints_of(second.dir()).empty(); }));
  const std::uint64_t saved = checkpoints_of(second.dir()).back();
  second.process().signal(SIGKILL);
  BOOST_TEST_REQUIRE(second.process().wait().value_or(0) == -SIGKILL);

  Peer& again = start("second", first.address());
  const Said said = end_of(again);
  BOOST_TEST(said.from == "resumed");
  BOOST_TEST(said.steps > saved);
  BOOST_TEST(said.away < 0.1);
  BOOST_TEST(end_of(first).away < 0.1);
}

BOOST_AUTO_TEST_CASE(who_is_asked_to_leave_saves_and_is_gone_from_the_swarm) {
  Peer& first = start("first", "");
  Peer& second = start("second", first.address());
  BOOST_TEST_REQUIRE(reaches(second, 0.1));
  tell(second, "leave");
  BOOST_TEST(end_of(second).how == "left");
  BOOST_TEST(!checkpoints_of(second.dir()).empty());
  BOOST_TEST(first.state_of("second") == "left");
  BOOST_TEST(end_of(first).how == "done");
}

BOOST_AUTO_TEST_CASE(a_program_that_throws_ends_its_peer_and_no_other) {
  Peer& first = start("first", "");
  Peer& second = start("second", first.address(), "plane", {"200"});
  BOOST_TEST(second.process().wait().value_or(-1) == 1);
  BOOST_TEST(second.process().err().find("there is no such sample") != std::string::npos);
  BOOST_TEST(checkpoints_of(second.dir()).empty());
  BOOST_TEST(second.summary().end == "failed");
  // It said goodbye, so others need not detect its end.
  BOOST_TEST(first.state_of("second") == "left");
  BOOST_TEST(end_of(first).away < 0.1);
}

BOOST_AUTO_TEST_CASE(programs_with_other_data_are_told_so) {
  Peer& first = start("first", "");
  BOOST_TEST_REQUIRE(reaches(first, 0.01));
  Peer& second = start("second", first.address(), "another plane");
  BOOST_TEST(second.process().wait().value_or(-1) == 12);
  BOOST_TEST(second.process().err().find("data.identity: ") != std::string::npos,
             second.process().err());
}

BOOST_AUTO_TEST_CASE(what_the_program_decides_has_no_place_in_the_run_file) {
  write(std::string(kRun) + "[model]\npreset = \"mlp\"\n");
  Peer& first = start("first", "");
  BOOST_TEST(first.process().wait().value_or(-1) == 12);
  BOOST_TEST(first.process().err().find("run.toml:17: model.preset: is only for runs that") !=
                 std::string::npos,
             first.process().err());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace starling::integration
