// The facts on which the peers of a ring must agree, and the messages if one is missing or too
// many.
#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include <boost/test/unit_test.hpp>

#include "peer/core.hpp"
#include "runfile/run_file.hpp"
#include "world.hpp"

using namespace starling;
using namespace starling::peer;
using namespace starling::peer::testing;

namespace {

using std::chrono::seconds;

constexpr base::Duration kRunsOut = std::chrono::hours(1);

constexpr exchange::Mode kRings[] = {exchange::Mode::allreduce, exchange::Mode::local};
constexpr std::uint32_t kRound = 5;  ///< steps

std::string name_of(exchange::Mode mode) {
  return mode == exchange::Mode::local ? "local" : "allreduce";
}

Config ring_of(const World& world, std::uint32_t peers, exchange::Mode mode) {
  Config config = config_for(world.problem, mode);
  config.peers = peers;
  config.exchange.every = kRound;
  return config;
}

/// The canonical form of a run in a ring.
std::string form_of(const std::string& mode, std::vector<std::string> overrides) {
  overrides.insert(overrides.begin(), {"exchange.mode=" + mode, "swarm.peers=4"});
  const auto run_file = runfile::parse_run_file("[run]\nepochs = 1\n[model]\npreset = \"mlp\"\n",
                                                "run.toml", overrides);
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
         "train.nesterov=true", "train.weight_decay=0.1", "train.clip=1", "train.schedule=cosine",
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

// A peer that is done says goodbye while another still applies the last mean, or waits for it.
BOOST_AUTO_TEST_CASE(who_is_done_first_does_not_end_the_ring_for_the_others) {
  for (const exchange::Mode mode : kRings) {
    for (const double accuracy : {0.0, 0.9}) {
      BOOST_TEST_CONTEXT(name_of(mode) << " to an accuracy of " << accuracy) {
        World world(5);
        Config config = ring_of(world, 4, mode);
        if (accuracy > 0) config.target_accuracy = accuracy;
        config.evaluate_every = 512;
        world.add_swarm(4, config);
        for (std::size_t i = 0; i < world.size(); ++i) world.slow_down(i, i == 2 ? 50 : 1);
        BOOST_REQUIRE(world.run_to_the_end(kRunsOut));
        for (std::size_t i = 0; i < world.size(); ++i) {
          const Finished& end = *world.peer(i).finished;
          BOOST_TEST((end.reason == EndReason::done), end.error.text);
          BOOST_TEST(world.peer(i).saved.back().step.value == world.status(0).steps);
          BOOST_TEST((world.replica(i) == world.replica(0)));
        }
      }
    }
  }
}

// With another device, or another number of threads, an accuracy is rounded otherwise.
BOOST_AUTO_TEST_CASE(who_misses_the_target_that_the_others_have_reached_does_not_wait_for_them) {
  for (const exchange::Mode mode : kRings) {
    for (const std::size_t missing : {1, 2}) {
      BOOST_TEST_CONTEXT(name_of(mode) << ", " << missing << " of 3") {
        World world(5);
        Config config = ring_of(world, 3, mode);
        config.target_accuracy = 0.9;
        config.evaluate_every = 512;
        world.tamper = [missing](std::size_t index, Outcome& outcome) {
          auto* evaluated = std::get_if<Evaluated>(&outcome);
          if (evaluated == nullptr || index >= missing) return;
          evaluated->accuracy = std::min(evaluated->accuracy, 0.89);
        };
        world.add_swarm(3, config);
        BOOST_REQUIRE(world.run_to_the_end(kRunsOut));
        for (std::size_t i = 0; i < world.size(); ++i) {
          const Finished& end = *world.peer(i).finished;
          BOOST_TEST((end.reason == (i < missing ? EndReason::failed : EndReason::done)),
                     end.error.text);
        }
      }
    }
  }
}

// The limit is a machine's own, so it decides when an evaluation is known, and not what is known.
BOOST_AUTO_TEST_CASE(a_limit_of_steps_at_one_peer_does_not_change_where_a_target_ends_the_ring) {
  for (const exchange::Mode mode : kRings) {
    for (const int interval_ms : {6, 50}) {
      BOOST_TEST_CONTEXT(name_of(mode) << " every " << interval_ms << " ms") {
        World world(21);
        Config config = ring_of(world, 3, mode);
        config.evaluate_every = 100;
        config.target_accuracy = 0.9;
        Config limited = config;
        limited.step_interval = std::chrono::milliseconds(interval_ms);
        world.add(limited);
        world.add(config, {World::address_of(0)});
        world.add(config, {World::address_of(0)});
        BOOST_REQUIRE(world.run_to_the_end(kRunsOut));
        for (std::size_t i = 0; i < world.size(); ++i) {
          const Finished& end = *world.peer(i).finished;
          BOOST_TEST((end.reason == EndReason::done), end.error.text);
          BOOST_TEST(world.status(i).steps == world.status(0).steps);
          BOOST_TEST((world.replica(i) == world.replica(0)));
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(who_leaves_a_ring_together_leaves_checkpoints_that_it_goes_on_from) {
  for (const exchange::Mode mode : kRings) {
    for (const std::uint64_t seed : {1, 2, 3}) {
      BOOST_TEST_CONTEXT(name_of(mode) << " seed " << seed) {
        World world(seed);
        Config config = ring_of(world, 4, mode);
        config.checkpoint_every = seconds(1);
        world.add_swarm(4, config);
        world.slow_down(3, 10);
        BOOST_REQUIRE(world.run_until(kRunsOut, [&] { return world.status(0).steps > 50; }));
        for (std::size_t i = 0; i < 4; ++i) world.give(i, Leave{});
        BOOST_REQUIRE(world.run_to_the_end(kRunsOut));
        const base::StepNumber step = world.peer(0).saved.back().step;
        BOOST_TEST(step.value > 50U);
        BOOST_TEST((mode == exchange::Mode::allreduce || step.value % kRound == 0));
        for (std::size_t i = 0; i < 4; ++i) {
          const Finished& end = *world.peer(i).finished;
          BOOST_TEST((end.reason == EndReason::left), end.error.text);
          BOOST_TEST(end.error.text == "");
          BOOST_TEST(world.peer(i).saved.back().step.value == step.value);
          BOOST_TEST((world.replica(i) == world.replica(0)));
        }
        for (std::size_t i = 0; i < 4; ++i) {
          const std::vector<std::string> join{World::address_of(4)};
          world.add(config, i == 0 ? std::vector<std::string>{} : join, world.peer(i).saved.back(),
                    i);
        }
        BOOST_REQUIRE(world.run_to_the_end(kRunsOut));
        for (std::size_t i = 4; i < 8; ++i) {
          const Finished& end = *world.peer(i).finished;
          BOOST_TEST((end.reason == EndReason::done), end.error.text);
          BOOST_TEST((world.replica(i) == world.replica(4)));
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(when_one_leaves_a_ring_all_have_saved_before_it_ends) {
  for (const exchange::Mode mode : kRings) {
    BOOST_TEST_CONTEXT(name_of(mode)) {
      World world(6);
      const Config config = ring_of(world, 3, mode);
      world.add_swarm(3, config);
      world.slow_down(2, 10);
      BOOST_REQUIRE(world.run_until(kRunsOut, [&] { return world.status(0).steps > 50; }));
      world.give(1, Leave{});
      BOOST_REQUIRE(world.run_to_the_end(kRunsOut));
      BOOST_TEST((world.peer(1).finished->reason == EndReason::left));
      for (std::size_t i = 0; i < 3; ++i) {
        BOOST_REQUIRE(world.peer(i).saved.size() == 1U);
        BOOST_TEST(world.peer(i).saved[0].step.value == world.peer(1).saved[0].step.value);
        if (i == 1) continue;
        const Finished& end = *world.peer(i).finished;
        BOOST_TEST((end.reason == EndReason::failed));
        BOOST_TEST(end.error.text.find("another peer was asked to leave") == 0U, end.error.text);
      }
    }
  }
}

// Each peer has a timer of its own, and whoever controls one may ask it at any time.
BOOST_AUTO_TEST_CASE(peers_of_a_ring_save_at_the_same_steps) {
  for (const exchange::Mode mode : kRings) {
    BOOST_TEST_CONTEXT(name_of(mode)) {
      World world(7);
      Config config = ring_of(world, 3, mode);
      config.checkpoint_every = std::chrono::milliseconds(150);
      world.add(config);
      config.checkpoint_every = {};
      world.add(config, {World::address_of(0)});
      config.checkpoint_every = std::chrono::milliseconds(70);
      world.add(config, {World::address_of(0)});
      BOOST_REQUIRE(world.run_until(kRunsOut, [&] { return world.status(1).steps > 20; }));
      world.give(1, Checkpoint{});
      BOOST_REQUIRE(world.run_to_the_end(kRunsOut));
      const auto steps_of = [&](std::size_t index) {
        std::vector<std::uint64_t> steps;
        for (const Resume& saved : world.peer(index).saved) steps.push_back(saved.step.value);
        return steps;
      };
      BOOST_TEST(steps_of(0).size() > 3U);
      for (const std::size_t i : {1, 2}) BOOST_TEST(steps_of(i) == steps_of(0));
    }
  }
}

BOOST_AUTO_TEST_CASE(checkpoints_of_different_steps_are_told_apart_when_the_ring_is_made) {
  for (const exchange::Mode mode : kRings) {
    BOOST_TEST_CONTEXT(name_of(mode)) {
      World world(3);
      const Config config = ring_of(world, 2, mode);
      world.add(config, {}, {.step = base::StepNumber{10}, .samples = 160, .progress = 0.03});
      world.add(config, {World::address_of(0)},
                {.step = base::StepNumber{15}, .samples = 240, .progress = 0.04});
      BOOST_REQUIRE(world.run_to_the_end(kRunsOut));
      bool told = false;
      for (std::size_t i = 0; i < 2; ++i) {
        const Finished& end = *world.peer(i).finished;
        BOOST_TEST((end.reason == EndReason::failed));
        told = told || end.error.text.find("has a checkpoint of step") != std::string::npos;
      }
      BOOST_TEST(told, world.peer(0).finished->error.text);
    }
  }
}

BOOST_AUTO_TEST_CASE(who_lacks_the_last_checkpoint_of_a_ring_is_told_that_the_run_has_ended) {
  for (const exchange::Mode mode : kRings) {
    BOOST_TEST_CONTEXT(name_of(mode)) {
      World world(3);
      const Config config = ring_of(world, 2, mode);
      world.add(config, {}, {.step = base::StepNumber{256}, .samples = 4096, .progress = 1});
      world.add(config, {World::address_of(0)},
                {.step = base::StepNumber{250}, .samples = 4000, .progress = 0.97});
      BOOST_REQUIRE(world.run_to_the_end(kRunsOut));
      BOOST_TEST((world.peer(0).finished->reason == EndReason::done));
      const Finished& end = *world.peer(1).finished;
      BOOST_TEST((end.reason == EndReason::failed));
      BOOST_TEST(end.error.text.find("has ended this run") != std::string::npos, end.error.text);
      BOOST_TEST(end.error.text.find("of step 250") != std::string::npos, end.error.text);
    }
  }
}

// Its last evaluation comes after its last checkpoint, which the one that leaves does not await.
BOOST_AUTO_TEST_CASE(a_ring_that_reaches_its_target_with_the_step_at_which_one_leaves_is_done) {
  for (const exchange::Mode mode : kRings) {
    BOOST_TEST_CONTEXT(name_of(mode)) {
      World world(5);
      Config config = ring_of(world, 3, mode);
      config.evaluate_every = 3ULL * config.train.batch * kRound;
      config.target_accuracy = 0.1;  // of the first evaluation
      world.add_swarm(3, config);
      const std::uint64_t last = kRound - 1;
      BOOST_REQUIRE(world.run_until(kRunsOut, [&] { return world.status(1).steps == last; }));
      world.give(1, Leave{});
      BOOST_REQUIRE(world.run_to_the_end(kRunsOut));
      for (const std::size_t i : {0, 2}) {
        const Finished& end = *world.peer(i).finished;
        BOOST_TEST((end.reason == EndReason::done), end.error.text);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(a_ring_whose_run_is_over_ends_at_once_when_it_is_started_again) {
  for (const exchange::Mode mode : kRings) {
    BOOST_TEST_CONTEXT(name_of(mode)) {
      World world(3);
      const Config config = ring_of(world, 2, mode);
      const Resume over{.step = base::StepNumber{256}, .samples = 4096, .progress = 1};
      world.add(config, {}, over);
      BOOST_REQUIRE(world.run_to_the_end(kRunsOut));
      BOOST_TEST((world.peer(0).finished->reason == EndReason::done));
    }
  }
}

BOOST_AUTO_TEST_CASE(a_ring_goes_on_over_new_links_when_its_links_break) {
  for (const exchange::Mode mode : kRings) {
    for (const std::uint64_t seed : {1, 2, 3, 4}) {
      BOOST_TEST_CONTEXT(name_of(mode) << " seed " << seed) {
        World world(seed);
        world.add_swarm(4, ring_of(world, 4, mode));
        base::Rng rng(seed);
        for (std::uint64_t steps = 1; steps < 120; steps += 1 + rng.below(10)) {
          const std::size_t one = rng.below(4);
          const auto far = [&] { return world.status(one).steps >= steps; };
          BOOST_REQUIRE(world.run_until(kRunsOut, far));
          for (const auto& [link, place] : world.network().links(one)) {
            if (rng.below(2) == 0) world.reset(one, link);
          }
        }
        BOOST_REQUIRE(world.run_to_the_end(kRunsOut));
        for (std::size_t i = 0; i < world.size(); ++i) {
          const Finished& end = *world.peer(i).finished;
          BOOST_TEST((end.reason == EndReason::done), end.error.text);
          BOOST_TEST(world.status(i).steps == 128U);  // 8,192 samples
          BOOST_TEST((world.replica(i) == world.replica(0)));
        }
      }
    }
  }
}

// The successor may lack the last means, which nobody else has for it.
BOOST_AUTO_TEST_CASE(who_is_done_with_a_ring_stays_until_its_successor_has_all) {
  for (const exchange::Mode mode : kRings) {
    for (int moment = 0; moment < 40; ++moment) {
      BOOST_TEST_CONTEXT(name_of(mode) << " at " << moment) {
        World world(5);
        world.add_swarm(3, ring_of(world, 3, mode));
        const auto nearly = [&] { return world.status(0).samples >= 8192 / 3 - 16; };
        BOOST_REQUIRE(world.run_until(kRunsOut, nearly));
        // From the last step but one on, at some moment all links are gone with what is on them,
        // and no new one lives for longer than an evaluation takes.
        const auto never = [] { return false; };
        (void)world.run_until(moment * std::chrono::microseconds(500), never);
        for (int again = 0; again < 10; ++again) {
          for (const std::size_t one : {0, 1, 2}) {
            for (const auto& [link, place] : world.network().links(one)) world.reset(one, link);
          }
          (void)world.run_until(std::chrono::milliseconds(2), never);
        }
        BOOST_REQUIRE(world.run_to_the_end(kRunsOut));
        for (std::size_t i = 0; i < world.size(); ++i) {
          const Finished& end = *world.peer(i).finished;
          BOOST_TEST((end.reason == EndReason::done), end.error.text);
          BOOST_TEST((world.replica(i) == world.replica(0)));
        }
      }
    }
  }
}

// It lacks what it had of the step under way, and would take another one for it.
BOOST_AUTO_TEST_CASE(a_peer_of_a_ring_that_is_started_again_ends_it) {
  for (const exchange::Mode mode : kRings) {
    BOOST_TEST_CONTEXT(name_of(mode)) {
      World world(5);
      const Config config = ring_of(world, 3, mode);
      world.add_swarm(3, config);
      BOOST_REQUIRE(world.run_until(kRunsOut, [&] { return world.status(0).steps > 10; }));
      world.kill(1);
      world.add(config, {World::address_of(0)}, {}, 1);
      const auto ended = [&] { return world.peer(0).finished && world.peer(2).finished; };
      BOOST_REQUIRE(world.run_until(seconds(2), ended));
      std::string said;
      for (const std::size_t i : {0, 2}) said += world.peer(i).finished->error.text;
      BOOST_TEST(said.find("was started again") != std::string::npos, said);
    }
  }
}

// It came and left while those that are to be of the ring had waited too long to be woken again.
BOOST_AUTO_TEST_CASE(a_ring_is_made_when_one_too_many_has_left_before) {
  for (const exchange::Mode mode : kRings) {
    BOOST_TEST_CONTEXT(name_of(mode)) {
      World world(10);
      Config config = ring_of(world, 2, mode);
      config.membership.wait_timeout = std::chrono::milliseconds(1);
      world.add_swarm(3, config);
      BOOST_REQUIRE(world.run_until(seconds(5), [&] {
        return world.status(0).links.size() == 2 && world.status(1).links.size() == 2;
      }));
      world.kill(2);
      BOOST_TEST(world.run_until(
          seconds(5), [&] { return world.status(0).steps > 4 && world.status(1).steps > 4; }));
    }
  }
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
      BOOST_REQUIRE(world.run_until(kRunsOut, [&] { return world.status(0).steps > 4; }));
      const std::size_t third = world.add(config, {World::address_of(0)});
      BOOST_REQUIRE(world.run_until(kRunsOut, [&] { return !!world.peer(third).finished; }));
      const std::string refused = world.peer(third).finished->error.text;
      BOOST_TEST(
          refused.find("exchange.mode = " + name + ": its peers are fixed") != std::string::npos,
          refused);
      world.kill(0);
      BOOST_REQUIRE(world.run_to_the_end(kRunsOut));
      const std::string alone = world.peer(1).finished->error.text;
      BOOST_TEST(
          alone.find("exchange.mode = " + name + " cannot go on without it") != std::string::npos,
          alone);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
