// A machine with an invite asks any peer for the run file.
#include <algorithm>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <boost/test/unit_test.hpp>

#include "peer/core.hpp"
#include "world.hpp"

using namespace starling;
using namespace starling::peer;
using namespace starling::peer::testing;

namespace {

/// A peer's answer to a stranger that requests its run file, after its hello.
std::vector<wire::Message> answer_of(Config config) {
  World world(1);
  world.add(std::move(config));
  base::PeerId id;
  id.bytes.fill(7);
  const base::LinkId link = world.connect_stranger(0, id);
  world.give(0, Received{link, wire::RunFileRequest{}});
  BOOST_TEST(std::ranges::count(world.peer(0).closed, link) == 1);
  BOOST_TEST(world.peer(0).warnings.empty());
  return world.peer(0).told_strangers;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(run_file_request)

BOOST_AUTO_TEST_CASE(a_stranger_that_asks_gets_the_run_file_and_the_link_is_closed) {
  const Problem problem(1);
  Config config = config_for(problem, exchange::Mode::tracked);
  config.shared_run_file = "[run]\n";
  const auto told = answer_of(config);
  BOOST_REQUIRE(told.size() == 2U);
  BOOST_REQUIRE(std::holds_alternative<wire::Hello>(told[0]));
  BOOST_TEST((std::get<wire::Hello>(told[0]).run == config.run));
  BOOST_REQUIRE(std::holds_alternative<wire::RunFileReply>(told[1]));
  BOOST_TEST(std::get<wire::RunFileReply>(told[1]).text == "[run]\n");
}

BOOST_AUTO_TEST_CASE(a_peer_without_a_run_file_to_hand_out_says_so) {
  const Problem problem(1);
  const auto told = answer_of(config_for(problem, exchange::Mode::tracked));
  BOOST_REQUIRE(told.size() == 2U);
  BOOST_REQUIRE(std::holds_alternative<wire::Refuse>(told[1]));
  BOOST_TEST(std::get<wire::Refuse>(told[1]).text.find("no run file") != std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()
