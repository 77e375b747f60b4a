// When a peer has rows for its metrics, and evaluations.
#include <chrono>
#include <limits>
#include <string>
#include <vector>

#include <boost/test/unit_test.hpp>

#include "peer/core.hpp"
#include "world.hpp"

using namespace starling;
using namespace starling::peer;
using namespace starling::peer::testing;

namespace {

constexpr base::Duration kLongEnough = std::chrono::hours(1);

bool has_diverged(World& world, std::size_t index) {
  const Finished& end = *world.peer(index).finished;
  return end.reason == EndReason::failed && end.error.code == base::ErrorCode::diverged;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(reports)

BOOST_AUTO_TEST_CASE(rows_of_the_metrics_come_at_their_times_while_there_is_training) {
  World world(22);
  Config config = config_for(world.problem, exchange::Mode::tracked);
  config.membership.wait_for = 0;
  config.evaluate_every = 0;
  config.step_interval = std::chrono::milliseconds(50);
  world.add(config);
  BOOST_REQUIRE(world.run_to_the_end(kLongEnough));
  const auto& times = world.peer(0).timed_reports;
  BOOST_TEST(world.peer(0).reports == 1U);  // the evaluation at the end
  BOOST_REQUIRE(times.size() > 5U);
  const base::Time started = *world.status(0).training_since;
  for (std::size_t i = 0; i < times.size(); ++i) {
    BOOST_TEST(base::seconds(times[i] - started - (i + 1) * kReportEvery) < 0.2);
    BOOST_TEST((times[i] >= started + (i + 1) * kReportEvery));
  }
}

BOOST_AUTO_TEST_CASE(private_data_are_evaluated_by_the_own_samples) {
  World world(23);
  Config config = config_for(world.problem, exchange::Mode::tracked);
  config.evaluate_every = 1024;
  config.evaluate_by_own_samples = true;
  for (std::size_t i = 0; i < 4; ++i) {
    world.add(config, i == 0 ? std::vector<std::string>{} : std::vector{World::address_of(0)});
  }
  BOOST_REQUIRE(world.run_to_the_end(kLongEnough));
  for (std::size_t i = 0; i < world.size(); ++i) {
    // One for each 1,024 of its about 2,048 samples, and the last one.
    BOOST_TEST(world.peer(i).reports >= 2U);
    BOOST_TEST(world.peer(i).reports <= 2 + world.status(i).samples / 1024);
  }
}

BOOST_AUTO_TEST_CASE(an_evaluation_that_is_not_finite_ends_a_peer_as_a_step_does) {
  using limits = std::numeric_limits<double>;
  for (const double loss : {limits::quiet_NaN(), limits::infinity()}) {
    for (const std::uint64_t every : {0, 512}) {  // at the end, or long before
      BOOST_TEST_CONTEXT("a loss of " << loss << ", evaluated every " << every) {
        World world(24);
        Config config = config_for(world.problem, exchange::Mode::tracked);
        config.membership.wait_for = 0;
        config.evaluate_every = every;
        world.tamper = [&](std::size_t, Outcome& outcome) {
          if (auto* evaluated = std::get_if<Evaluated>(&outcome)) evaluated->loss = loss;
        };
        world.add(config);
        BOOST_REQUIRE(world.run_to_the_end(kLongEnough));
        BOOST_TEST(has_diverged(world, 0));
        BOOST_TEST(world.peer(0).finished->error.text.starts_with("the loss of an evaluation is "));
        BOOST_TEST((world.status(0).samples >= 8192U) == (every == 0));
      }
    }
  }
}

// The accuracy of samples that have targets in place of labels is none.
BOOST_AUTO_TEST_CASE(an_evaluation_without_an_accuracy_is_one) {
  World world(24);
  Config config = config_for(world.problem, exchange::Mode::tracked);
  config.membership.wait_for = 0;
  world.tamper = [](std::size_t, Outcome& outcome) {
    auto* evaluated = std::get_if<Evaluated>(&outcome);
    if (evaluated) evaluated->accuracy = std::numeric_limits<double>::quiet_NaN();
  };
  world.add(config);
  BOOST_REQUIRE(world.run_to_the_end(kLongEnough));
  BOOST_TEST((world.peer(0).finished->reason == EndReason::done));
}

BOOST_AUTO_TEST_CASE(all_of_a_ring_hear_that_their_last_evaluation_is_not_finite) {
  for (const exchange::Mode mode : {exchange::Mode::allreduce, exchange::Mode::local}) {
    World world(25);
    Config config = config_for(world.problem, mode);
    config.peers = 3;
    config.evaluate_every = 0;
    world.tamper = [](std::size_t, Outcome& outcome) {
      auto* evaluated = std::get_if<Evaluated>(&outcome);
      if (evaluated) evaluated->loss = std::numeric_limits<double>::quiet_NaN();
    };
    world.add_swarm(3, config);
    world.slow_down(1, 50);
    BOOST_REQUIRE(world.run_to_the_end(kLongEnough));
    for (std::size_t i = 0; i < world.size(); ++i) {
      BOOST_TEST(has_diverged(world, i), world.peer(i).finished->error.text);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_replica_that_is_not_finite_at_the_end_is_no_success_where_none_evaluates) {
  World world(26);
  Config config = config_for(world.problem, exchange::Mode::tracked);
  config.membership.wait_for = 0;
  world.tamper = [](std::size_t, Outcome& outcome) {
    if (std::holds_alternative<Evaluated>(outcome)) outcome = NotEvaluated{};
    if (auto* saved = std::get_if<Saved>(&outcome)) {
      saved->status = base::fail(base::ErrorCode::diverged, "not finite");
    }
  };
  world.add(config);
  BOOST_REQUIRE(world.run_to_the_end(kLongEnough));
  BOOST_TEST(has_diverged(world, 0));
  BOOST_TEST(world.peer(0).finished->error.text == "the model was not saved: not finite");
}

BOOST_AUTO_TEST_SUITE_END()
