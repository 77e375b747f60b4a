// Peers that are told not to train alone for long.
#include <chrono>

#include <boost/test/unit_test.hpp>

#include "world.hpp"

using namespace starling;
using namespace starling::peer;
using namespace starling::peer::testing;
using exchange::Mode;
using std::chrono::seconds;

BOOST_AUTO_TEST_SUITE(required_peers)

BOOST_AUTO_TEST_CASE(without_the_peers_it_requires_it_ends) {
  World world(14);
  Config config = config_for(world.problem, Mode::tracked);
  config.require_peers = seconds(5);
  world.add(config, {"nobody:1"});
  BOOST_REQUIRE(world.run_to_the_end(seconds(6)));
  BOOST_TEST(failed_with(world, 0, base::ErrorCode::unreachable));
}

BOOST_AUTO_TEST_CASE(who_is_leaving_when_its_patience_ends_saves_before_it_goes) {
  World world(14);
  Config config = config_for(world.problem, Mode::tracked);
  config.membership.wait_timeout = std::chrono::milliseconds(100);
  config.require_peers = seconds(1);
  config.target_samples *= 1000;
  world.add(config, {"nobody:1"});
  BOOST_REQUIRE(!world.run_until(std::chrono::milliseconds(900),
                                 [&] { return world.peer(0).finished.has_value(); }));
  world.slow_down(0, 500);
  world.give(0, Leave{});
  BOOST_REQUIRE(world.run_to_the_end(seconds(5)));
  BOOST_TEST(ended(world, 0, EndReason::left));
  BOOST_TEST(world.peer(0).saved.size() == 1U);
}

BOOST_AUTO_TEST_CASE(a_run_that_is_over_before_the_peers_it_requires_came_is_no_success) {
  World world(14);
  Config config = config_for(world.problem, Mode::tracked);
  config.require_peers = kPatience;
  world.add(config, {"nobody:1"});
  BOOST_REQUIRE(world.run_to_the_end(kPatience));
  BOOST_TEST(ended(world, 0, EndReason::done));
  BOOST_TEST((world.peer(0).finished->error.code == base::ErrorCode::unreachable));
  BOOST_TEST(world.peer(0).saved.size() == 1U);
}

BOOST_AUTO_TEST_SUITE_END()
