// A peer's knowledge of its former lives and of others' work, and the others' knowledge of it.
#include <algorithm>
#include <string>
#include <vector>

#include <boost/test/unit_test.hpp>

#include "world.hpp"

using namespace starling;
using namespace starling::peer;
using namespace starling::peer::testing;
using exchange::Mode;
using std::chrono::seconds;

namespace {

std::uint64_t own_counter(World& world, std::size_t of, std::size_t known_to) {
  const auto& progress = world.peer(known_to).core->membership().progress();
  return progress.samples_of(world.peer(of).id.prefix(), world.now());
}

}  // namespace

BOOST_AUTO_TEST_SUITE(restart)

BOOST_AUTO_TEST_CASE(a_run_that_is_over_is_not_trained_on_by_who_starts_again) {
  World world(1);
  const Config config = config_for(world.problem, Mode::tracked);
  world.add_swarm(3, config);
  BOOST_REQUIRE(world.run_to_the_end(kPatience));
  const Resume left = world.peer(0).saved.back();
  BOOST_TEST(left.progress == 1.0);
  Config alone = config;
  alone.membership.wait_for = 0;
  const std::size_t again = world.add(alone, {}, left, 0);
  BOOST_REQUIRE(world.run_to_the_end(kPatience));
  BOOST_REQUIRE(world.peer(again).finished);
  BOOST_TEST((world.peer(again).finished->reason == EndReason::done));
  BOOST_TEST(world.peer(again).saved.back().step.value == left.step.value);
  BOOST_TEST(world.peer(again).saved.back().samples == left.samples);
}

BOOST_AUTO_TEST_CASE(so_is_a_run_that_reached_its_accuracy) {
  World world(2);
  Config config = config_for(world.problem, Mode::tracked);
  config.target_samples *= 100;
  config.target_accuracy = 0.5;
  world.add_swarm(2, config);
  BOOST_REQUIRE(world.run_to_the_end(kPatience));
  const Resume left = world.peer(0).saved.back();
  config.membership.wait_for = 0;
  const std::size_t again = world.add(config, {}, left, 0);
  BOOST_REQUIRE(world.run_to_the_end(kPatience));
  BOOST_TEST(world.peer(again).saved.back().step.value == left.step.value);
}

BOOST_AUTO_TEST_CASE(what_peers_that_are_gone_have_trained_counts_after_a_restart) {
  World world(3);
  Config config = config_for(world.problem, Mode::tracked);
  world.add_swarm(3, config);
  BOOST_REQUIRE(world.run_until(kPatience, [&] { return world.status(0).progress > 0.5; }));
  for (const std::size_t peer : {0, 1, 2}) world.give(peer, Leave{});
  BOOST_REQUIRE(world.run_to_the_end(kPatience));
  const Resume left = world.peer(0).saved.back();
  BOOST_TEST(left.counters.size() == 3U);
  config.membership.wait_for = 0;
  const std::size_t again = world.add(config, {}, left, 0);
  BOOST_TEST(world.status(again).progress >= left.progress);
  BOOST_REQUIRE(world.run_to_the_end(kPatience));
  // It cannot count the work of others after the last that the checkpoint heard of them.
  std::uint64_t heard_of = 0;
  for (const base::SampleCounter& counter : left.counters) {
    if (counter.peer != world.peer(0).id.prefix()) heard_of += counter.samples;
  }
  std::uint64_t others = 0;
  for (const std::size_t peer : {1, 2}) others += world.status(peer).samples;
  BOOST_TEST(others >= heard_of);
  BOOST_TEST(others <= heard_of + 16 * world.problem.training.batch);
  const std::uint64_t trained = heard_of + world.status(again).samples;
  BOOST_TEST(trained <= config.target_samples + 8 * world.problem.training.batch);
  BOOST_TEST(trained >= config.target_samples - 8 * world.problem.training.batch);
}

BOOST_AUTO_TEST_CASE(what_is_known_of_a_former_life_is_told_while_others_are_waited_for) {
  World world(6);
  Config config = config_for(world.problem, Mode::tracked);
  const std::size_t waits =
      world.add(config, {"nobody:1"}, {.samples = 64, .progress = 0.25, .counters = {{7, 1984}}});
  BOOST_TEST(world.status(waits).progress == 0.25);
  BOOST_TEST(world.status(waits).swarm_samples == 2048U);
}

BOOST_AUTO_TEST_CASE(who_was_killed_before_it_saved_learns_from_others_what_it_had_trained) {
  World world(4);
  const Config config = config_for(world.problem, Mode::tracked);
  world.add_swarm(3, config);
  BOOST_REQUIRE(world.run_until(kPatience, [&] { return world.status(0).progress > 0.5; }));
  const std::uint64_t known = own_counter(world, 1, 0);
  BOOST_REQUIRE(known > 0U);
  world.kill(1);
  const std::size_t again = world.add(config, {World::address_of(0)}, {}, 1);
  BOOST_TEST(
      world.run_until(seconds(20), [&] { return own_counter(world, again, again) >= known; }));
  BOOST_REQUIRE(world.run_to_the_end(kPatience));
  for (const std::size_t peer : {std::size_t{0}, std::size_t{2}, again}) {
    BOOST_TEST((world.peer(peer).finished->reason == EndReason::done));
  }
  BOOST_TEST(own_counter(world, again, 0) == own_counter(world, again, again));
}

BOOST_AUTO_TEST_CASE(who_dies_without_a_checkpoint_knows_where_the_others_are) {
  World world(12);
  Config config = config_for(world.problem, Mode::tracked);
  config.target_samples *= 1000;  // the run outlasts the test
  world.add_swarm(3, config);
  BOOST_REQUIRE(world.run_until(kPatience, [&] { return world.peer(1).remembered.size() == 2; }));
  world.kill(1);
  BOOST_TEST(world.peer(1).saved.empty());
  std::vector<std::string> addresses = world.peer(1).remembered;
  std::ranges::sort(addresses);
  BOOST_TEST(addresses == (std::vector{World::address_of(0), World::address_of(2)}));
  // One that knows nothing else finds the swarm by it, and keeps what it did not meet.
  addresses[0] = "nobody:1";
  const std::size_t back = world.add(config, {}, {.addresses = addresses});
  BOOST_REQUIRE(world.run_until(kPatience, [&] {
    return world.status(back).links.size() == 2 && world.status(back).phase == Phase::training;
  }));
  BOOST_TEST(world.run_until(kPatience, [&] {
    return std::ranges::all_of(
        std::vector<std::string>{World::address_of(0), World::address_of(2), "nobody:1"},
        [&](const std::string& address) {
          return std::ranges::count(world.peer(back).remembered, address) == 1;
        });
  }));
}

BOOST_AUTO_TEST_CASE(another_swarm_at_an_address_of_a_former_life_ends_nothing) {
  World world(13);
  const Config config = config_for(world.problem, Mode::tracked);
  world.add_swarm(2, config);
  Config other = config;
  other.run.bytes[0] ^= 1U;
  const std::size_t alone = world.add(other, {}, {.addresses = {World::address_of(0)}});
  BOOST_REQUIRE(world.run_to_the_end(kPatience));
  BOOST_TEST((world.peer(alone).finished->reason == EndReason::done));
  BOOST_TEST(std::ranges::count_if(world.peer(alone).warnings, [](const std::string& text) {
               return text.find("refused") != std::string::npos;
             }) > 0);
}

BOOST_AUTO_TEST_CASE(another_swarm_at_an_address_that_nobody_gave_ends_nothing) {
  World world(14);
  const Config config = config_for(world.problem, Mode::tracked);
  world.add_swarm(2, config);
  Config other = config;
  other.run.bytes[0] ^= 1U;
  const std::size_t alone = world.add(other, {"nobody:1"});
  world.give(alone, Found{world.peer(0).id, World::address_of(0)});  // on the local network
  BOOST_REQUIRE(world.run_to_the_end(kPatience));
  BOOST_TEST((world.peer(alone).finished->reason == EndReason::done));
  BOOST_TEST(!world.peer(alone).refused);
}

BOOST_AUTO_TEST_CASE(addresses_of_a_former_life_do_not_decide_whether_a_peer_is_turned_away) {
  World world(14);
  const Config config = config_for(world.problem, Mode::tracked);
  const DialFailed given{.address = "one:1", .text = "wrong secret", .turned_away = true};
  const DialFailed former{.address = "former:1", .text = "wrong secret", .turned_away = true};
  world.add(config, {"one:1"}, {.addresses = {"former:1"}});
  world.add(config, {}, {.addresses = {"former:1"}});
  for (const std::size_t i : {0, 1}) {
    world.give(i, former);
    BOOST_TEST(!world.peer(i).finished);
  }
  world.give(0, given);
  BOOST_REQUIRE(world.peer(0).finished);
  BOOST_TEST((world.peer(0).finished->error.code == base::ErrorCode::secret));
}

BOOST_AUTO_TEST_CASE(who_comes_too_late_for_a_replica_does_not_call_its_own_one_trained) {
  for (const bool restarts : {false, true}) {
    for (const std::uint64_t seed : {11, 12, 13}) {
      BOOST_TEST_CONTEXT("seed " << seed << ", with a checkpoint: " << restarts) {
        World world(seed);
        const Config config = config_for(world.problem, Mode::tracked);
        world.add(config);
        BOOST_REQUIRE(world.run_until(kPatience, [&] { return world.status(0).progress >= 1; }));
        world.slow_down(0, 100);  // its last evaluation
        const Resume old =
            restarts ? Resume{.step = base::StepNumber{1}, .samples = 64, .progress = 0.25}
                     : Resume{};
        const std::size_t late = world.add(config, {World::address_of(0)}, old);
        world.slow_down(late, 10'000);
        BOOST_REQUIRE(world.run_to_the_end(kPatience));
        BOOST_TEST((world.peer(0).finished->reason == EndReason::done));
        BOOST_TEST((world.peer(late).finished->reason == EndReason::failed));
        BOOST_TEST((world.peer(late).finished->error.code == base::ErrorCode::unreachable));
        BOOST_TEST(world.peer(late).saved.empty());
      }
    }
  }
}

// Where it was told to join, another swarm may come up, with another secret or another run.
BOOST_AUTO_TEST_CASE(a_swarm_of_strangers_does_not_end_a_peer_that_trains) {
  World world(14);
  Config config = config_for(world.problem, Mode::tracked);
  config.step_interval = std::chrono::milliseconds(50);  // it dials again while it trains
  Config other = config;
  other.canonical = "run.name = \"another\"\n";
  other.run.bytes[0] ^= 1U;
  world.add(config, {World::address_of(1)});
  BOOST_REQUIRE(world.run_until(kPatience, [&] { return world.status(0).steps > 4; }));
  world.give(
      0, DialFailed{.address = World::address_of(1), .text = "wrong secret", .turned_away = true});
  world.add(other);
  BOOST_REQUIRE(world.run_to_the_end(kPatience));
  BOOST_TEST((world.peer(0).finished->reason == EndReason::done));
  const auto is_refusal = [](const std::string& text) {
    return text.find(" refused: ") != std::string::npos;
  };
  BOOST_TEST(std::ranges::count_if(world.peer(0).warnings, is_refusal) > 0);
}

// To evaluate may take minutes.
BOOST_AUTO_TEST_CASE(the_last_checkpoint_comes_before_the_last_evaluation) {
  World world(5);
  world.add_swarm(1, config_for(world.problem, Mode::none));
  const auto saves = [&] { return world.peer(0).saved.size(); };
  BOOST_REQUIRE(world.run_until(
      kPatience, [&] { return world.status(0).phase == Phase::finishing && saves() == 1; }));
  BOOST_TEST(!world.peer(0).finished);
  world.give(0, Leave{});  // nothing is left to be saved
  BOOST_REQUIRE(world.peer(0).finished);
  BOOST_TEST((world.peer(0).finished->reason == EndReason::left));
}

BOOST_AUTO_TEST_SUITE_END()
