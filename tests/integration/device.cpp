// Peers whose replicas are in a device's memory: the CUDA backend with its kernels on the processor
// (tests/cuda_on_cpu) replaces the CUDA module.
#include <cstdlib>
#include <string>

#include <boost/test/unit_test.hpp>
#include <nlohmann/json.hpp>

#include "harness.hpp"
#include "runtime/swarm_distance.hpp"

namespace starling::integration {
namespace {

const std::string kDevice = "train.device=cuda:0";
/// Its products are plain loops.
const std::string kLayers =
    R"(model.layers=[{type="linear",out=16},{type="relu"},{type="linear",out=10}])";
constexpr double kAccuracy = 0.7;

struct WithModule {
  WithModule() { setenv("STARLING_CUDA_MODULE", STARLING_CUDA_ON_CPU, 1); }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(device, WithModule)

BOOST_AUTO_TEST_CASE(a_peer_there_and_one_here_agree_and_their_mirrors_have_the_same_bits) {
  for (const std::string mirror : {"float32", "bf16"}) {
    BOOST_TEST_CONTEXT("mirrors in " << mirror) {
      const testing::TemporaryFolder folder;
      // As fast as the slower one, so that there are enough exchanges for hashes of mirrors.
      const Arguments set{kLayers,
                          "run.samples=60000",
                          "exchange.mirror=" + mirror,
                          "exchange.every=1",
                          "swarm.wait_for=1",
                          "limits.steps_per_second=60"};
      Arguments there = set;
      there.push_back(kDevice);
      Peer one(folder, "here", "", set);
      Peer other(folder, "there", one.address(), there);
      for (Peer* const peer : {&one, &other}) {
        BOOST_TEST_REQUIRE(peer->process().wait().value_or(-1) == 0, peer->process().err());
        const report::PeerSummary summary = peer->summary();
        BOOST_TEST(summary.accuracy.value_or(0) > kAccuracy);
        BOOST_TEST(summary.exchanges > 130U);
        // A mirror that differs from the other end's would open the link again.
        BOOST_TEST(summary.bytes_sent.keyframe == 0U);
      }
      const auto run = base::Hash128::parse(one.summary().run);
      BOOST_TEST(runtime::replica_distance({one.dir(), other.dir()}, *run).value_or(1) < 0.01);
    }
  }
}

BOOST_AUTO_TEST_CASE(what_a_peer_there_saves_goes_on_there_and_here) {
  const testing::TemporaryFolder folder;
  const std::string dir = folder / "runs/peer";
  const auto loss_on = [&](const std::string& device) {
    const Ended ended =
        run(folder, {"up", mlp_run_file(), "--name", "peer", "--dir", dir, "--listen",
                     "127.0.0.1:0", "--set", kLayers, "--set", "run.samples=12800", "--set",
                     "train.optimizer=adamw", "--set", "train.lr=0.002", "--set", device});
    BOOST_TEST_REQUIRE(ended.code.value_or(-1) == 0, ended.err);
    return report::read_peer_summary(dir)->loss.value();
  };
  const double trained = loss_on(kDevice);
  const auto near = boost::test_tools::tolerance(1e-4);
  BOOST_TEST(trained < 1.5);
  const Ended evaluated = run(folder, {"eval", "--json", dir});
  BOOST_TEST_REQUIRE(evaluated.code.value_or(-1) == 0, evaluated.err);
  BOOST_TEST(nlohmann::json::parse(evaluated.out).at("loss").get<double>() == trained, near);
  BOOST_TEST(loss_on(kDevice) == trained, near);
  BOOST_TEST(loss_on("train.device=cpu") == trained, near);
}

BOOST_AUTO_TEST_CASE(what_was_trained_in_bfloat16_is_evaluated_in_it) {
  const testing::TemporaryFolder folder;
  const std::string dir = folder / "runs/peer";
  const Ended trained =
      run(folder, {"up", mlp_run_file(), "--name", "peer", "--dir", dir, "--listen", "127.0.0.1:0",
                   "--set", kLayers, "--set", "run.samples=12800", "--set", kDevice, "--set",
                   "train.precision=bf16", "--set", "train.accumulate=4"});
  BOOST_TEST_REQUIRE(trained.code.value_or(-1) == 0, trained.err);
  const Ended evaluated = run(folder, {"eval", "--json", dir});
  BOOST_TEST_REQUIRE(evaluated.code.value_or(-1) == 0, evaluated.err);
  const double loss = report::read_peer_summary(dir)->loss.value();
  BOOST_TEST(nlohmann::json::parse(evaluated.out).at("loss").get<double>() == loss,
             boost::test_tools::tolerance(1e-6));
}

BOOST_AUTO_TEST_CASE(layers_that_the_device_has_no_way_for_are_named) {
  const testing::TemporaryFolder folder;
  const std::string images = "model.input=[1,28,28]";
  const std::string layers =
      R"(model.layers=[{type="conv2d",name="first",out=2,kernel=3},{type="linear",out=10}])";
  const Ended checked = run(folder, {"check", mlp_run_file(), "--json", "--set", images, "--set",
                                     layers, "--set", kDevice});
  BOOST_TEST_REQUIRE(checked.code.value_or(-1) == 0, checked.err);
  const auto slow = nlohmann::json::parse(checked.out).at("device").at("slow_layers");
  BOOST_TEST(slow == nlohmann::json{"first (conv2d)"});
  const Ended ended =
      run(folder, {"up", mlp_run_file(), "--name", "peer", "--listen", "127.0.0.1:0", "--set",
                   images, "--set", layers, "--set", "run.samples=256", "--set", kDevice});
  BOOST_TEST_REQUIRE(ended.code.value_or(-1) == 0, ended.err);
  BOOST_TEST(ended.err.find("slow layers (device cuda:0, layers first (conv2d))") !=
             std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_device_that_cannot_record_steps_says_why_once) {
  const testing::TemporaryFolder folder;
  setenv("STARLING_TEST_RECORDING", "no capture here", 1);
  const Ended ended = run(
      folder, {"up", mlp_run_file(), "--name", "peer", "--dir", folder / "runs/peer", "--listen",
               "127.0.0.1:0", "--set", kLayers, "--set", "run.samples=1280", "--set", kDevice});
  unsetenv("STARLING_TEST_RECORDING");
  BOOST_TEST_REQUIRE(ended.code.value_or(-1) == 0, ended.err);
  const std::size_t told = ended.err.find("no capture here");
  BOOST_TEST_REQUIRE(told != std::string::npos, ended.err);
  BOOST_TEST(ended.err.find("no capture here", told + 1) == std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_neighbour_whose_deltas_have_no_room_there_ends_its_link_alone) {
  const testing::TemporaryFolder folder;
  const Arguments set{kLayers, "run.samples=60000", "swarm.wait_for=1",
                      "limits.steps_per_second=60"};
  Arguments dense = set;
  dense.push_back("exchange.density=1");
  Arguments there = set;
  there.push_back(kDevice);
  Peer neighbour(folder, "dense", "", dense);
  // Enough for 12,730 parameters, their training, and sparse deltas.
  setenv("STARLING_TEST_ROOM", "400000", 1);
  Peer peer(folder, "there", neighbour.address(), there);
  unsetenv("STARLING_TEST_ROOM");
  for (Peer* const one : {&peer, &neighbour}) {
    BOOST_TEST_REQUIRE(one->process().wait().value_or(-1) == 0, one->process().err());
  }
  BOOST_TEST(has(peer.process().err(), "no link with "), peer.process().err());
  BOOST_TEST(!has(peer.process().err(), "broke the protocol"));
  BOOST_TEST(!has(neighbour.process().err(), "misbehaved"));
}

BOOST_AUTO_TEST_CASE(deltas_that_do_not_fit_there_are_told_before_a_run) {
  const testing::TemporaryFolder folder;
  const std::string wide = R"(model.layers=[{type="linear",out=1000},{type="linear",out=10}])";
  const auto check = [&](const std::string& density) {
    return run(folder, {"check", mlp_run_file(), "--json", "--set", kDevice, "--set", wide, "--set",
                        "exchange.settle_density=" + density});
  };
  const auto deltas = [](const Ended& ended) {
    BOOST_TEST_REQUIRE(ended.code.value_or(-1) == 0, ended.err);
    return nlohmann::json::parse(ended.out).at("memory_bytes").at("deltas").get<double>();
  };
  BOOST_TEST(deltas(check("1")) > 3 * deltas(check("0.1")));
  // There is room for vectors of 795,010 parameters, but not for deltas of all of them.
  setenv("STARLING_TEST_PIECE_MAX", "4000000", 1);
  const Ended some = check("0.1");
  const Ended all = check("1");
  unsetenv("STARLING_TEST_PIECE_MAX");
  BOOST_TEST(some.code.value_or(-1) == 0, some.err);
  BOOST_TEST(all.code.value_or(-1) == 6);
  BOOST_TEST(all.err.find("exchange.settle_density") != std::string::npos, all.err);
}

BOOST_AUTO_TEST_CASE(a_killed_peer_there_comes_back_from_its_checkpoint_and_others_go_on) {
  Swarm swarm(3, {kLayers, kDevice, "run.samples=240000"});
  constexpr std::size_t kVictim = 2;
  const std::string dir = swarm[kVictim].dir();
  BOOST_TEST_REQUIRE(swarm.reaches(swarm[kVictim], 0.2));
  const Ended asked = run(swarm.folder(), {"checkpoint", "--peer", dir});
  BOOST_TEST_REQUIRE(asked.code.value_or(-1) == 0, asked.err);
  BOOST_TEST_REQUIRE(eventually([&] { return !checkpoints_of(dir).empty(); }));
  const std::uint64_t saved = checkpoints_of(dir).back();
  swarm.kill(kVictim);
  const Peer& again = swarm.add(swarm[kVictim].name(), swarm[0].address());
  swarm.require_end({kVictim});
  BOOST_TEST(again.summary().accuracy.value_or(0) > kAccuracy);
  BOOST_TEST(again.summary().steps >= saved);
  BOOST_TEST(swarm.distance({kVictim}) < 0.01);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace starling::integration
