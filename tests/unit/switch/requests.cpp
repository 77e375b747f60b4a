#include "scenarios/switch/requests.hpp"

#include <algorithm>
#include <string>

#include <boost/test/unit_test.hpp>
#include <nlohmann/json.hpp>

using namespace std::chrono_literals;
using nlohmann::json;
using starling::net_switch::Conditions;
using starling::net_switch::Fabric;
using starling::net_switch::Line;

namespace {

json ask(Fabric& fabric, const std::string& request) {
  return json::parse(answer(fabric, request));
}

}  // namespace

BOOST_AUTO_TEST_SUITE(requests)

BOOST_AUTO_TEST_CASE(conditions_are_set_where_asked_and_others_stay) {
  Fabric fabric(3, 1);
  BOOST_TEST(ask(fabric, R"({"set": {"loss": 0.25}})")["ok"] == true);
  const std::string request =
      R"({"set": {"rate_bps": 1e6, "delay_ms": 12.5, "cut": true}, "from": [0], "to": [1, 2]})";
  BOOST_TEST(ask(fabric, request)["ok"] == true);
  const Conditions changed{.rate = 1e6, .delay = 12500us, .loss = 0.25, .cut = true};
  BOOST_TEST((fabric.conditions(0, 1) == changed));
  BOOST_TEST((fabric.conditions(0, 2) == changed));
  BOOST_TEST((fabric.conditions(1, 0) == Conditions{.loss = 0.25}));
}

BOOST_AUTO_TEST_CASE(a_reset_makes_the_network_perfect_again) {
  Fabric fabric(2, 1);
  BOOST_TEST(ask(fabric, R"({"set": {"jitter_ms": 3, "queue_ms": 1, "corrupt": 1}})")["ok"] ==
             true);
  BOOST_TEST(ask(fabric, R"({"reset": true, "from": [1]})")["ok"] == true);
  BOOST_TEST((fabric.conditions(1, 0) == Conditions{}));
  BOOST_TEST(fabric.conditions(0, 1).corrupt == 1.0);
}

BOOST_AUTO_TEST_CASE(a_line_is_of_the_ports_that_are_named) {
  Fabric fabric(3, 1);
  const char* const set = R"({"line": {"rate_bps": 1e7, "queue_ms": 20}, "ports": [0, 2]})";
  BOOST_TEST(ask(fabric, set)["ok"] == true);
  BOOST_TEST((fabric.line(2) == Line{.rate = 1e7, .queue = std::chrono::milliseconds(20)}));
  BOOST_TEST((fabric.line(1) == Line{}));
  BOOST_TEST(ask(fabric, R"({"line": {"rate_bps": 0}})")["ok"] == true);
  BOOST_TEST((fabric.line(2) == Line{.rate = 0, .queue = std::chrono::milliseconds(20)}));
}

BOOST_AUTO_TEST_CASE(what_is_wrong_is_said_and_changes_nothing) {
  Fabric fabric(2, 1);
  for (const char* wrong :
       {"", "[]", "{", "{}", R"({"set": 3})", R"({"set": {"los": 0.1}})",
        R"({"set": {"loss": 1.5}})", R"({"set": {"delay_ms": -1}})",
        R"({"set": {"rate_bps": "fast"}})", R"({"set": {"cut": 1}})",
        R"({"set": {"loss": 0.5}, "to": [2]})", R"({"set": {"loss": 0.5}, "from": 1})",
        R"({"set": {"loss": 0.5}, "from": [-1]})", R"({"set": {"loss": 0.5, "jitter_ms": null}})",
        R"({"line": 3})", R"({"line": {"loss": 1}})", R"({"line": {"rate_bps": -1}})",
        R"({"line": {"rate_bps": 1}, "ports": [2]})", "\xff\xfe"}) {
    BOOST_TEST_CONTEXT(wrong) {
      const json reply = ask(fabric, wrong);
      BOOST_TEST(reply["ok"] == false);
      BOOST_TEST(!reply["error"].get<std::string>().empty());
      BOOST_TEST((fabric.conditions(0, 1) == Conditions{}));
      BOOST_TEST((fabric.line(0) == Line{}));
    }
  }
}

BOOST_AUTO_TEST_CASE(counters_name_the_pairs_that_were_used) {
  Fabric fabric(2, 1);
  starling::net_switch::Frame frame(100);
  std::ranges::copy(starling::net_switch::mac_of(1), frame.begin());
  fabric.submit(0, frame, {});
  BOOST_TEST(fabric.take({}).has_value());
  const json reply = ask(fabric, R"({"counters": true})");
  BOOST_TEST_REQUIRE(reply["counters"].size() == 1U);
  BOOST_TEST(reply["counters"][0]["from"] == 0);
  BOOST_TEST(reply["counters"][0]["to"] == 1);
  BOOST_TEST(reply["counters"][0]["delivered_bytes"] == 100);
}

BOOST_AUTO_TEST_SUITE_END()
