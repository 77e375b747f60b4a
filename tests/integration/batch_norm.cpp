// The statistics of batch norms: averaged, saved, restored and used.
#include <cmath>
#include <string>
#include <vector>

#include <boost/test/unit_test.hpp>
#include <nlohmann/json.hpp>

#include "harness.hpp"
#include "train/checkpoint.hpp"
#include "train/weights.hpp"

namespace starling::integration {
namespace {

using Json = nlohmann::json;

const std::string kLayers =
    R"(model.layers=[{type="linear",out=64},{type="batch_norm"},{type="relu"},)"
    R"({type="linear",out=10}])";

/// The buffers of a peer's newest checkpoint.
std::vector<double> statistics_of(const std::string& dir) {
  const std::string step = std::to_string(checkpoints_of(dir).back());
  const auto checkpoint = train::read_checkpoint(dir + "/checkpoints/step-" + step);
  BOOST_TEST_REQUIRE(checkpoint.has_value());
  std::vector<double> all;
  for (const train::TensorEntry& entry : checkpoint->model.entries()) {
    if (!train::is_buffer_name(entry.name)) continue;
    std::vector<float> values(entry.size);
    BOOST_TEST_REQUIRE(checkpoint->model.copy(entry.name, entry.shape, values).has_value());
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

double distance(const std::vector<double>& a, const std::vector<double>& b) {
  BOOST_TEST_REQUIRE(a.size() == b.size());
  double away = 0;
  double norm = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    away += (a[i] - b[i]) * (a[i] - b[i]);
    norm += a[i] * a[i];
  }
  return std::sqrt(away / norm);
}

BOOST_AUTO_TEST_SUITE(batch_norm)

BOOST_AUTO_TEST_CASE(two_peers_end_with_equal_statistics_and_evaluate_alike) {
  for (const std::string mode : {"tracked", "allreduce"}) {
    BOOST_TEST_CONTEXT(mode) {
      Swarm swarm(2, {kLayers, "run.samples=60000", "exchange.mode=" + mode, "swarm.peers=2"});
      swarm.require_end();
      const auto one = statistics_of(swarm[0].dir());
      const auto other = statistics_of(swarm[1].dir());
      BOOST_TEST(one.size() == 128U);
      BOOST_TEST(distance(one, other) <= (mode == "tracked" ? 0.01 : 0.0));
      const double first = swarm[0].summary().accuracy.value();
      const double second = swarm[1].summary().accuracy.value();
      BOOST_TEST(first > 0.8);
      BOOST_TEST(std::abs(first - second) < 0.01);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_peer_that_starts_again_has_its_statistics_back_and_eval_uses_them) {
  const testing::TemporaryFolder folder;
  const std::string dir = folder / "runs/peer";
  const Arguments up{"up",       mlp_run_file(), "--name", "peer",  "--dir", dir,
                     "--listen", "127.0.0.1:0",  "--set",  kLayers, "--set", "run.samples=12800"};
  const auto loss = [&] {
    const Ended ended = run(folder, up);
    BOOST_TEST_REQUIRE(ended.code.value_or(-1) == 0, ended.err);
    return report::read_peer_summary(dir)->loss.value();
  };
  const double trained = loss();
  const auto statistics = statistics_of(dir);
  const auto near = boost::test_tools::tolerance(1e-6);
  const Ended evaluated = run(folder, {"eval", "--json", dir});
  BOOST_TEST_REQUIRE(evaluated.code.value_or(-1) == 0, evaluated.err);
  BOOST_TEST(Json::parse(evaluated.out).at("loss").get<double>() == trained, near);
  BOOST_TEST(loss() == trained, near);  // the run is over: no step is made
  BOOST_TEST(distance(statistics_of(dir), statistics) == 0.0);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace starling::integration
