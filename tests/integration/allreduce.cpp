// The baseline: gradients are averaged over a ring at every step.
#include <string>

#include <boost/test/unit_test.hpp>
#include <signal.h>

#include "harness.hpp"

namespace starling::integration {
namespace {

constexpr double kParameters = 784 * 256 + 256 + 256 * 10 + 10;  // of the MLP
constexpr double kPeers = 4;

BOOST_AUTO_TEST_CASE(all_replicas_are_equal_to_the_bit_and_the_bytes_are_a_ring_s) {
  Swarm swarm(4, {"exchange.mode=allreduce", "run.samples=38400"});
  swarm.require_end();
  for (std::size_t i = 0; i < swarm.size(); ++i) {
    BOOST_TEST_CONTEXT(swarm[i].name()) {
      const report::PeerSummary summary = swarm[i].summary();
      BOOST_TEST(summary.end == "done");
      BOOST_TEST(summary.steps == 150U);  // samples / (4 peers * batch of 64)
      const double expected =
          2 * (kPeers - 1) / kPeers * 4 * kParameters * static_cast<double>(summary.steps);
      BOOST_TEST(static_cast<double>(summary.bytes_sent.reduce) > expected);
      BOOST_TEST(static_cast<double>(summary.bytes_sent.reduce) < 1.02 * expected);
      BOOST_TEST(static_cast<double>(summary.bytes_received.reduce) < 1.02 * expected);
      BOOST_TEST(summary.bytes_sent.delta == 0U);
    }
  }
  BOOST_TEST(swarm.distance() == 0);
}

BOOST_AUTO_TEST_CASE(local_training_sends_a_ring_s_bytes_once_a_round) {
  Swarm swarm(4, {"exchange.mode=local", "exchange.every=20", "run.samples=38400"});
  swarm.require_end();
  constexpr double kRounds = 8;  // 150 steps
  for (std::size_t i = 0; i < swarm.size(); ++i) {
    BOOST_TEST_CONTEXT(swarm[i].name()) {
      const report::PeerSummary summary = swarm[i].summary();
      BOOST_TEST(summary.end == "done");
      BOOST_TEST(summary.steps == 150U);
      const double expected = 2 * (kPeers - 1) / kPeers * 4 * kParameters * kRounds;
      BOOST_TEST(static_cast<double>(summary.bytes_sent.reduce) > expected);
      BOOST_TEST(static_cast<double>(summary.bytes_sent.reduce) < 1.02 * expected);
    }
  }
  BOOST_TEST(swarm.distance() == 0);
}

BOOST_AUTO_TEST_CASE(a_death_ends_the_others_with_an_error_that_says_so) {
  Swarm swarm(4, {"exchange.mode=allreduce", "run.samples=1000000000"});
  constexpr std::size_t kVictim = 2;
  BOOST_TEST_REQUIRE(eventually([&] {
                       const auto status = swarm[kVictim].status();
                       return status && status->steps >= 10;
                     }),
                     swarm[kVictim].process().err());
  swarm.kill(kVictim);
  for (std::size_t i = 0; i < swarm.size(); ++i) {
    if (i == kVictim) continue;
    BOOST_TEST_CONTEXT(swarm[i].name()) {
      BOOST_TEST(swarm[i].process().wait().value_or(-1) == 1);
      const std::string said = swarm[i].process().err();
      BOOST_TEST(said.find("exchange.mode = \"allreduce\" cannot go on") != std::string::npos,
                 said);
      BOOST_TEST(swarm[i].summary().end == "failed");
    }
  }
}

}  // namespace
}  // namespace starling::integration
