#include "peer/evaluations.hpp"

#include <limits>

#include <boost/test/unit_test.hpp>

using namespace starling;
using namespace starling::peer;

namespace {

Config evaluated_every(std::uint64_t samples) {
  Config config;
  config.evaluate_every = samples;
  return config;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(evaluations)

BOOST_AUTO_TEST_CASE(one_is_due_after_each_interval_of_samples) {
  const Config config = evaluated_every(100);
  Evaluations evaluations(config);
  Outbox out;
  for (const std::uint64_t swarm : {99, 100, 101, 250}) {
    evaluations.begin_if_due(10, swarm, out);
    if (evaluations.under_way() > 0) evaluations.end(Evaluated{});
  }
  BOOST_TEST(out.size() == 2U);
}

BOOST_AUTO_TEST_CASE(none_begins_while_another_is_under_way) {
  const Config config = evaluated_every(100);
  Evaluations evaluations(config);
  Outbox out;
  evaluations.begin_if_due(0, 100, out);
  evaluations.begin_if_due(0, 200, out);
  BOOST_TEST(out.size() == 1U);
  evaluations.end(Evaluated{});
  evaluations.begin_if_due(0, 201, out);
  BOOST_TEST(out.size() == 2U);
}

BOOST_AUTO_TEST_CASE(with_private_data_own_samples_count) {
  Config config = evaluated_every(100);
  config.evaluate_by_own_samples = true;
  Evaluations evaluations(config);
  Outbox out;
  evaluations.begin_if_due(99, 1000, out);
  BOOST_TEST(out.empty());
  evaluations.begin_if_due(100, 1000, out);
  BOOST_TEST(out.size() == 1U);
}

BOOST_AUTO_TEST_CASE(only_the_latest_tells_of_the_target_and_of_divergence) {
  Config config;
  config.target_accuracy = 0.9;
  Evaluations evaluations(config);
  Outbox out;
  BOOST_TEST(!evaluations.reached_target());
  evaluations.begin_last(out);
  evaluations.end(Evaluated{.accuracy = 0.95, .loss = std::numeric_limits<double>::infinity()});
  BOOST_TEST(evaluations.reached_target());
  BOOST_TEST((evaluations.what_diverged()->code == base::ErrorCode::diverged));
  evaluations.begin_last(out);
  evaluations.end(std::nullopt);
  BOOST_TEST(!evaluations.reached_target());
  BOOST_TEST(!evaluations.what_diverged());
}

BOOST_AUTO_TEST_SUITE_END()
