// What the peers of a ring must agree on, and what is said when one is missing or too many.
#include <chrono>
#include <string>
#include <vector>

#include <boost/test/unit_test.hpp>

#include "peer/core.hpp"
#include "peer/run_file.hpp"
#include "world.hpp"

using namespace starling;
using namespace starling::peer;
using namespace starling::peer::testing;

namespace {

constexpr base::Duration kLongEnough = std::chrono::hours(1);

/// The canonical form of a run in a ring.
std::string form_of(const std::string& mode, std::vector<std::string> overrides) {
  overrides.insert(overrides.begin(), {"exchange.mode=" + mode, "swarm.peers=4"});
  const auto run_file =
      parse_run_file("[run]\nepochs = 1\n[model]\npreset = \"mlp\"\n", "run.toml", overrides);
  BOOST_REQUIRE_MESSAGE(run_file.has_value(), (run_file ? "" : run_file.error().text));
  return canonical(*run_file, {});
}

/// Whether peers with these keys and peers without them are of different runs.
void check(bool differ, const std::string& mode, const std::vector<std::string>& base,
           const std::vector<std::string>& keys) {
  for (const std::string& key : keys) {
    BOOST_TEST_CONTEXT(mode << " " << key) {
      std::vector<std::string> with = base;
      with.push_back(key);
      BOOST_TEST((form_of(mode, with) != form_of(mode, base)) == differ);
    }
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(ring)

BOOST_AUTO_TEST_CASE(all_peers_of_an_all_reduce_take_the_same_steps) {
  check(true, "allreduce", {},
        {"swarm.peers=3", "train.batch=16", "train.lr=0.3", "train.momentum=0.5",
         "train.nesterov=true", "train.weight_decay=0.1", "train.decay_all=true", "train.clip=1",
         "train.slow_every=10", "train.slow_momentum=0.2", "train.schedule=cosine",
         "train.warmup=0.1", "train.final_lr=0.1", "train.step_factor=0.5"});
  check(true, "allreduce", {"train.optimizer=adamw"},
        {"train.beta1=0.8", "train.beta2=0.9", "train.epsilon=1e-6"});
  check(true, "allreduce", {"train.optimizer=muon"},
        {"train.adam_lr=0.001", "train.momentum=0.9", "train.nesterov=false", "train.beta2=0.9"});
  check(true, "allreduce", {"train.schedule=step", "train.steps=[0.5]"}, {"train.steps=[0.6]"});
  check(false, "allreduce", {},
        {"train.accumulate=2", "train.device=cuda:0", "train.threads=3", "train.precision=bf16",
         "report.every=2", "report.samples=10", "exchange.every=5", "exchange.density=0.1",
         "checkpoint.every=5", "limits.steps_per_second=5"});
}

BOOST_AUTO_TEST_CASE(all_peers_of_local_training_count_on_the_same_samples) {
  check(true, "local", {},
        {"swarm.peers=3", "train.batch=16", "exchange.every=5", "exchange.outer_lr=0.5",
         "exchange.outer_momentum=0.5"});
  check(false, "local", {},
        {"train.lr=0.3", "train.momentum=0.5", "train.schedule=cosine", "train.clip=1",
         "train.accumulate=2", "report.every=2", "report.samples=10"});
}

BOOST_AUTO_TEST_CASE(who_ends_together_at_an_accuracy_looks_at_it_alike) {
  for (const std::string mode : {"allreduce", "local"}) {
    check(true, mode, {}, {"run.target_accuracy=0.8"});
    check(
        true, mode, {"run.target_accuracy=0.8"},
        {"run.target_accuracy=0.9", "report.every=2", "report.samples=10", "train.precision=bf16"});
  }
  check(false, "tracked", {"run.target_accuracy=0.8"},
        {"run.target_accuracy=0.9", "report.every=2", "report.samples=10", "train.batch=16",
         "train.precision=bf16"});
}

BOOST_AUTO_TEST_CASE(who_is_one_too_many_or_missing_is_told_so_with_the_mode_s_name) {
  for (const exchange::Mode mode : {exchange::Mode::allreduce, exchange::Mode::local}) {
    const std::string name = mode == exchange::Mode::local ? "\"local\"" : "\"allreduce\"";
    BOOST_TEST_CONTEXT(name) {
      World world(10);
      Config config = config_for(world.problem, mode);
      config.peers = 2;
      world.add(config);
      world.add(config, {World::address_of(0)});
      BOOST_REQUIRE(world.run_until(kLongEnough, [&] { return world.status(0).steps > 4; }));
      const std::size_t third = world.add(config, {World::address_of(0)});
      BOOST_REQUIRE(world.run_until(kLongEnough, [&] { return !!world.peer(third).finished; }));
      const std::string refused = world.peer(third).finished->error.text;
      BOOST_TEST(
          refused.find("exchange.mode = " + name + ": its peers are fixed") != std::string::npos,
          refused);
      world.kill(0);
      BOOST_REQUIRE(world.run_to_the_end(kLongEnough));
      const std::string alone = world.peer(1).finished->error.text;
      BOOST_TEST(
          alone.find("exchange.mode = " + name + " cannot go on without it") != std::string::npos,
          alone);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
