// When a peer has rows for its metrics, and evaluations.
#include <chrono>
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

}  // namespace

BOOST_AUTO_TEST_SUITE(reports)

BOOST_AUTO_TEST_CASE(rows_of_the_metrics_come_at_their_times_while_there_is_training) {
  World world(22);
  Config config = config_for(world.problem, exchange::Mode::tracked);
  config.membership.wait_for = 0;
  config.report_every = 0;
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
  config.report_every = 1024;
  config.report_by_own_samples = true;
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

BOOST_AUTO_TEST_SUITE_END()
