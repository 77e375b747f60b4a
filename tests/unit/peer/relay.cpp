// Members without a replica.
#include <algorithm>
#include <chrono>

#include <boost/test/unit_test.hpp>

#include "peer/core.hpp"
#include "world.hpp"

using namespace starling;
using namespace starling::peer;
using namespace starling::peer::testing;
using namespace std::chrono_literals;

namespace {

/// A relay, and two peers that know nothing but it.
void add_relay_and_pair(World& world, const Config& config) {
  world.add_relay();
  world.add(config, {World::address_of(0)});
  world.add(config, {World::address_of(0)});
}

/// One that trains for longer than a test looks at it, slowly.
Config long_run(const World& world) {
  Config config = config_for(world.problem, exchange::Mode::tracked);
  config.target_samples = std::uint64_t{1} << 40;
  config.evaluate_every = 0;
  config.step_interval = 100ms;
  config.shared_run_file = "the run file";
  return config;
}

bool is_linked(const World& world, std::size_t at, std::size_t to, const char* state) {
  return std::ranges::any_of(world.status(at).links, [&](const LinkStatus& link) {
    return link.name == "peer-" + std::to_string(to) && link.state == state;
  });
}

template <class T>
std::size_t told(World& world, std::size_t index) {
  return static_cast<std::size_t>(std::ranges::count_if(
      world.peer(index).told_strangers,
      [](const wire::Message& message) { return std::holds_alternative<T>(message); }));
}

}  // namespace

BOOST_AUTO_TEST_SUITE(relays)

BOOST_AUTO_TEST_CASE(two_that_know_a_relay_alone_find_each_other_train_and_end) {
  for (const std::uint64_t seed : {1, 2, 3}) {
    BOOST_TEST_CONTEXT("seed " << seed) {
      World world(seed);
      Config config = config_for(world.problem, exchange::Mode::tracked);
      config.step_interval = 20ms;
      add_relay_and_pair(world, config);
      BOOST_REQUIRE(world.run_until(20s, [&] { return world.status(0).swarm_samples > 0; }));
      const Status relay = world.status(0);
      BOOST_TEST(is_linked(world, 0, 1, "relay"));
      BOOST_TEST(is_linked(world, 1, 0, "relay"));
      BOOST_TEST(is_linked(world, 1, 2, "open"));
      BOOST_TEST((relay.phase == Phase::relaying));
      BOOST_TEST(relay.steps == 0U);
      BOOST_TEST(relay.shards == 0U);
      BOOST_TEST(world.status(1).shards + world.status(2).shards == world.problem.shards.count());
      BOOST_REQUIRE(world.run_until(
          kPatience, [&] { return world.peer(1).finished && world.peer(2).finished; }));
      BOOST_TEST(ended(world, 1, EndReason::done));
      BOOST_TEST(ended(world, 2, EndReason::done));
      BOOST_TEST(world.spread() < 0.02);
      // The next run may have it.
      BOOST_TEST(
          world.run_until(kRelayAlone + 1s, [&] { return ended(world, 0, EndReason::done); }));
    }
  }
}

BOOST_AUTO_TEST_CASE(a_peer_that_meets_a_relay_alone_has_met_nobody) {
  World world(4);
  Config config = config_for(world.problem, exchange::Mode::tracked);
  config.require_peers = 10s;
  world.add_relay();
  world.add(config, {World::address_of(0)});
  BOOST_REQUIRE(world.run_until(kPatience, [&] { return world.peer(1).finished.has_value(); }));
  BOOST_TEST(failed_with(world, 1, base::ErrorCode::unreachable));
}

BOOST_AUTO_TEST_CASE(a_ring_is_made_without_the_relay) {
  World world(5);
  Config config = config_for(world.problem, exchange::Mode::allreduce);
  config.peers = 2;
  add_relay_and_pair(world, config);
  BOOST_REQUIRE(
      world.run_until(kPatience, [&] { return world.peer(1).finished && world.peer(2).finished; }));
  BOOST_TEST(ended(world, 1, EndReason::done));
  BOOST_TEST(world.spread() == 0);
}

BOOST_AUTO_TEST_CASE(a_relay_has_the_run_of_the_first_or_the_one_that_it_was_given) {
  World world(6);
  const Config config = long_run(world);
  Config other = config;
  other.run.bytes[0] ^= 1U;
  add_relay_and_pair(world, config);
  BOOST_REQUIRE(world.run_until(20s, [&] { return world.status(0).links.size() == 2; }));
  BOOST_TEST((world.status(0).run == config.run));
  const std::size_t late = world.add(other, {World::address_of(0)});
  BOOST_REQUIRE(world.run_until(20s, [&] { return world.peer(late).finished.has_value(); }));
  BOOST_TEST(failed_with(world, late, base::ErrorCode::run_file));
  BOOST_TEST(world.peer(late).finished->error.text.find("another run") != std::string::npos);
  BOOST_TEST(!world.peer(late).refused);  // it has nothing to compare with

  const std::size_t bound = world.add_relay(other.run);
  const std::size_t wrong = world.add(config, {World::address_of(bound)});
  BOOST_REQUIRE(world.run_until(20s, [&] { return world.peer(wrong).finished.has_value(); }));
  BOOST_TEST(failed_with(world, wrong, base::ErrorCode::run_file));
  const std::size_t right = world.add(other, {World::address_of(bound)});
  BOOST_TEST(world.run_until(20s, [&] { return is_linked(world, bound, right, "relay"); }));
}

BOOST_AUTO_TEST_CASE(a_relay_says_no_hello_before_it_has_a_run) {
  World world(7);
  world.add_relay();
  base::PeerId id;
  id.bytes.fill(9);
  world.connect_stranger(0, id);
  BOOST_TEST(told<wire::Hello>(world, 0) == 0U);
  world.add(long_run(world), {World::address_of(0)});
  BOOST_TEST(world.run_until(3s, [&] { return told<wire::Hello>(world, 0) == 1; }));
}

BOOST_AUTO_TEST_CASE(a_relay_hands_out_the_run_file_that_a_member_gave_it) {
  World world(8);
  world.add_relay();
  base::PeerId id;
  id.bytes.fill(9);
  const auto ask = [&] {
    world.give(0, Received{world.connect_stranger(0, id), wire::RunFileRequest{}});
  };
  ask();
  BOOST_TEST(told<wire::Refuse>(world, 0) == 1U);
  BOOST_TEST(told<wire::RunFileReply>(world, 0) == 0U);
  world.add(long_run(world), {World::address_of(0)});
  BOOST_REQUIRE(world.run_until(3s, [&] { return !world.status(0).links.empty(); }));
  BOOST_REQUIRE(world.run_until(1s, [&] {
    ask();
    return told<wire::RunFileReply>(world, 0) > 0;
  }));
  const auto& all = world.peer(0).told_strangers;
  const auto reply = std::ranges::find_if(all, [](const wire::Message& message) {
    return std::holds_alternative<wire::RunFileReply>(message);
  });
  BOOST_TEST(std::get<wire::RunFileReply>(*reply).text == "the run file");
}

BOOST_AUTO_TEST_CASE(a_member_gives_a_relay_its_run_file_once_a_link) {
  World world(9);
  world.add(long_run(world));
  world.add_relay({}, {World::address_of(0)});
  BOOST_REQUIRE(world.run_until(20s, [&] { return !world.status(0).links.empty(); }));
  BOOST_TEST(!world.run_until(1s, [&] { return !world.peer(0).warnings.empty(); }));
  const base::LinkId link = world.any_link(0);
  world.give(0, Received{link, wire::RunFileRequest{}});
  BOOST_REQUIRE(world.peer(0).warnings.size() == 1U);
  BOOST_TEST(world.peer(0).warnings[0].find("asked for a run file") != std::string::npos);
  BOOST_TEST(std::ranges::count(world.peer(0).closed, link) == 1);
}

BOOST_AUTO_TEST_CASE(a_relay_that_is_asked_to_leave_does_and_saves_nothing) {
  World world(10);
  add_relay_and_pair(world, long_run(world));
  BOOST_REQUIRE(world.run_until(20s, [&] { return world.status(0).links.size() == 2; }));
  world.give(0, Checkpoint{});
  world.give(0, Leave{});
  BOOST_TEST(ended(world, 0, EndReason::left));
  BOOST_TEST(world.peer(0).saved.empty());
  BOOST_TEST(world.peer(0).remembered.empty());
}

BOOST_AUTO_TEST_SUITE_END()
