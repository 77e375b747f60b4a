#include "sim/judge/verdicts.hpp"

#include <boost/test/unit_test.hpp>
#include <nlohmann/json.hpp>

#include "sim/judge/statistics.hpp"
#include "sim/language/scenario_names.hpp"

using namespace starling;
using namespace starling::sim;

namespace {

PlannedEvent event_of(Kind kind, std::vector<std::uint32_t> peers) {
  PlannedEvent event;
  event.kind = kind;
  event.peers = std::move(peers);
  return event;
}

PlannedEvent cut_of(const std::vector<std::uint32_t>& a, const std::vector<std::uint32_t>& b) {
  PlannedEvent event = event_of(Kind::partition, {0, 1, 2, 3});
  event.paths = {{a, b}, {b, a}};
  return event;
}

const auto kUnnoticed = R"([
  {"after": 0, "counts": false},
  {"after": 4.9, "counts": false},
  {"after": 5, "counts": true},
  {"after": 40, "counts": true}
])";
/// Which peers must notice that a peer dies during faults.
const auto kDeaths = R"([
  {"faults": [], "victim": 3, "observers": [0, 1, 2]},
  {"faults": [{"kind": "partition", "peers": [3],
               "paths": [{"from": [3], "to": [0, 1, 2]}, {"from": [0, 1, 2], "to": [3]}]}],
   "victim": 3, "observers": [0, 1, 2]},
  {"faults": [{"kind": "partition", "peers": [3], "paths": [{"from": [3], "to": [0, 1, 2]}]}],
   "victim": 3, "observers": [0, 1, 2]},
  {"faults": [{"kind": "partition", "peers": [0],
               "paths": [{"from": [0], "to": [1, 2, 3]}, {"from": [1, 2, 3], "to": [0]}]}],
   "victim": 3, "observers": [1, 2]},
  {"faults": [{"kind": "partition", "peers": [0, 1, 2, 3],
               "paths": [{"from": [0, 1], "to": [2, 3]}, {"from": [2, 3], "to": [0, 1]}]}],
   "victim": 3, "observers": [2]},
  {"faults": [{"kind": "partition", "peers": [3], "paths": [{"from": [3], "to": [0, 1, 2]}]},
              {"kind": "partition", "peers": [1], "paths": [{"from": [1], "to": [0]}]}],
   "victim": 3, "observers": [0, 2]},
  {"faults": [{"kind": "degrade", "peers": [0], "paths": [{"from": [0], "to": [1, 2, 3]}],
               "conditions": {"loss": 0.8}}],
   "victim": 3, "observers": [1, 2]},
  {"faults": [{"kind": "degrade", "peers": [0], "paths": [{"from": [0], "to": [1, 2, 3]}],
               "conditions": {"loss": 0.1}}],
   "victim": 3, "observers": [0, 1, 2]}
])";
const auto kPercentiles = R"([
  {"values": [3, 1, 2, 4], "part": 0.5, "value": 2},
  {"values": [1, 2, 3], "part": 0.5, "value": 2},
  {"values": [7, 1], "part": 0.5, "value": 1},
  {"values": [5], "part": 0.99, "value": 5},
  {"values": [1, 2], "part": 0.99, "value": 2},
  {"values": [0, 0, 0, 0, 0, 0, 0, 0, 0, 9], "part": 0.9, "value": 0},
  {"values": [0, 0, 0, 0, 0, 0, 0, 0, 0, 9], "part": 0.99, "value": 9},
  {"values": [], "part": 0.5, "value": null}
])";
/// In a scenario of 60 s: when the first fault begins, the last is over, and the last peer starts.
const auto kFaultTimes = R"([
  {"timeline": [], "first": null, "last": 0, "last_start": 0},
  {"timeline": [{"kind": "kill", "at": 10, "until": null}],
   "first": 10, "last": 10, "last_start": 0},
  {"timeline": [{"kind": "kill", "at": 10, "until": null},
                {"kind": "restart", "at": 30, "until": null}],
   "first": 10, "last": 30, "last_start": 30},
  {"timeline": [{"kind": "stop", "at": 10, "until": 20},
                {"kind": "leave", "at": 15, "until": null}],
   "first": 10, "last": 20, "last_start": 0},
  {"timeline": [{"kind": "partition", "at": 10, "until": null}],
   "first": 10, "last": 60, "last_start": 0},
  {"timeline": [{"kind": "degrade", "at": 5, "until": null}],
   "first": 5, "last": 60, "last_start": 0},
  {"timeline": [{"kind": "throttle", "at": 5, "until": null}],
   "first": 5, "last": 60, "last_start": 0},
  {"timeline": [{"kind": "disk_full", "at": 5, "until": null}],
   "first": 5, "last": 60, "last_start": 0},
  {"timeline": [{"kind": "stop", "at": 10, "until": 20}, {"kind": "join", "at": 40, "until": null}],
   "first": 10, "last": 40, "last_start": 40},
  {"timeline": [{"kind": "mapping_lost", "at": 10, "until": null},
                {"kind": "address_change", "at": 15, "until": null}],
   "first": 10, "last": 15, "last_start": 0},
  {"timeline": [{"kind": "router_restart", "at": 10, "until": 14}],
   "first": 10, "last": 14, "last_start": 0}
])";

Kind kind_of(const nlohmann::json& event) {
  const auto named = [&](const auto& word) { return word.first == event.at("kind"); };
  return std::ranges::find_if(kKindNames, named)->second;
}

Plan plan_of_four(std::optional<double> loss = std::nullopt) {
  Plan plan;
  plan.scenario.network.loss = loss;
  for (std::uint32_t i = 0; i < 4; ++i) {
    plan.peers.push_back({.number = i, .name = {}, .region = "local"});
  }
  return plan;
}

/// Four peers that run from 0 on; subjects have the numbers of their peers.
struct Four {
  Four() : Four(plan_of_four()) {}
  explicit Four(const Plan& plan) : verdicts(plan) {
    for (std::uint32_t i = 0; i < 4; ++i) verdicts.runs(i, i, 0);
  }
  void kill(std::uint32_t peer, const std::vector<std::uint32_t>& observers, double now) {
    verdicts.dies(peer, observers, now);
  }
  Verdicts verdicts;
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(verdicts, Four)

BOOST_AUTO_TEST_CASE(each_observer_of_a_death_is_a_detection) {
  kill(3, {0, 1}, 10);
  verdicts.held_dead(3, 0, 12);
  verdicts.held_dead(3, 1, 13.5);
  verdicts.held_dead(3, 2, 14);  // did not hold it alive
  BOOST_TEST(verdicts.detections() == (std::vector<double>{2, 3.5}),
             boost::test_tools::per_element());
  BOOST_TEST(verdicts.false_deaths() == 0U);
}

BOOST_AUTO_TEST_CASE(who_did_not_notice_counts_with_the_time_there_was) {
  kill(3, {0, 1}, 10);
  verdicts.held_dead(3, 0, 12);
  verdicts.runs(3, 3, 40);
  kill(2, {0}, 50);
  kill(3, {1}, 58);
  verdicts.finish(60);
  BOOST_TEST(verdicts.detections() == (std::vector<double>{2, 30, 10}),
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(an_unnoticed_death_counts_if_there_was_time_to_notice_it) {
  const auto table = nlohmann::json::parse(kUnnoticed);
  for (const auto& entry : table) {
    for (const bool comes_back : {true, false}) {
      Four four;
      four.kill(3, {0}, 10);
      const double at = 10 + entry.at("after").get<double>();
      if (comes_back) four.verdicts.runs(3, 3, at);
      if (!comes_back) four.verdicts.finish(at);
      BOOST_TEST(four.verdicts.detections().size() == (entry.at("counts").get<bool>() ? 1U : 0U),
                 entry.dump());
    }
  }
}

BOOST_AUTO_TEST_CASE(who_is_apart_from_a_death_and_from_others_need_not_notice_it) {
  const auto table = nlohmann::json::parse(kDeaths);
  for (const auto& entry : table) {
    Four four;
    std::vector<PlannedEvent> faults;
    for (const auto& fault : entry.at("faults")) {
      PlannedEvent& event = faults.emplace_back(event_of(kind_of(fault), fault.at("peers")));
      for (const auto& paths : fault.at("paths")) {
        event.paths.push_back({paths.at("from"), paths.at("to")});
      }
      if (fault.contains("conditions")) event.conditions.loss = fault["conditions"].at("loss");
    }
    for (const PlannedEvent& event : faults) four.verdicts.fault(event, true, 5);
    four.kill(entry.at("victim"), {0, 1, 2}, 10);
    // Each one at a different time.
    const std::vector<std::uint32_t> observers = entry.at("observers");
    std::vector<double> expected;
    for (std::uint32_t observer = 0; observer < 3; ++observer) {
      four.verdicts.held_dead(entry.at("victim"), observer, 11 + observer);
      const bool notices = std::ranges::count(observers, observer) > 0;
      if (notices) expected.push_back(1 + observer);
    }
    BOOST_TEST_INFO(entry.dump());
    BOOST_TEST(four.verdicts.detections() == expected, boost::test_tools::per_element());
  }
}

BOOST_AUTO_TEST_CASE(a_goodbye_is_no_death) {
  verdicts.leaves(3);
  verdicts.held_dead(3, 0, 20);
  verdicts.finish(60);
  BOOST_TEST(verdicts.detections().empty());
  BOOST_TEST(verdicts.false_deaths() == 0U);
}

BOOST_AUTO_TEST_CASE(an_observer_that_stands_still_has_nothing_to_notice) {
  const PlannedEvent stop = event_of(Kind::stop, {0, 1});
  kill(3, {0, 2}, 10);
  verdicts.fault(stop, true, 11);
  verdicts.held_dead(3, 2, 13);
  kill(2, {1}, 14);
  verdicts.fault(stop, false, 30);
  verdicts.held_dead(3, 0, 31);
  verdicts.finish(60);
  BOOST_TEST(verdicts.detections() == std::vector<double>{3}, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_death_behind_a_cut_is_noticed_by_those_that_no_cut_concerns) {
  PlannedEvent alone = cut_of({3}, {0, 1, 2});
  alone.peers = {3};
  verdicts.fault(alone, true, 5);
  kill(3, {0, 1}, 10);
  verdicts.fault(alone, false, 11);
  const PlannedEvent halves = cut_of({0, 1}, {2});
  verdicts.fault(halves, true, 12);
  kill(2, {0}, 13);
  verdicts.finish(60);
  BOOST_TEST(verdicts.detections() == (std::vector<double>{50, 50}),
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(holding_a_reachable_peer_dead_is_false_once_a_fault) {
  verdicts.held_dead(1, 0, 20);
  verdicts.held_dead(1, 2, 21);
  BOOST_TEST(verdicts.false_deaths() == 1U);
  verdicts.fault(event_of(Kind::kill, {3}), true, 22);
  verdicts.held_dead(1, 0, 30);
  BOOST_TEST(verdicts.false_deaths() == 2U);
}

BOOST_AUTO_TEST_CASE(who_has_just_started_or_stands_still_is_not_judged) {
  verdicts.held_dead(1, 0, kSettledSeconds - 0.1);
  const PlannedEvent stop = event_of(Kind::stop, {1});
  verdicts.fault(stop, true, 20);
  verdicts.held_dead(1, 0, 30);
  verdicts.held_dead(0, 1, 30);
  verdicts.fault(stop, false, 40);
  verdicts.held_dead(1, 0, 44);
  BOOST_TEST(verdicts.false_deaths() == 0U);
  verdicts.held_dead(1, 0, 46);
  BOOST_TEST(verdicts.false_deaths() == 1U);
}

BOOST_AUTO_TEST_CASE(during_a_cut_pairs_are_judged_that_still_reach_each_other) {
  const PlannedEvent halves = cut_of({0, 1}, {2, 3});
  verdicts.fault(halves, true, 20);
  verdicts.held_dead(2, 0, 30);
  verdicts.held_dead(0, 3, 30);
  BOOST_TEST(verdicts.false_deaths() == 0U);
  verdicts.held_dead(1, 0, 30);
  BOOST_TEST(verdicts.false_deaths() == 1U);
  verdicts.fault(halves, false, 40);
  verdicts.held_dead(3, 1, 44);  // decided before the heal
  BOOST_TEST(verdicts.false_deaths() == 1U);
  BOOST_TEST(verdicts.false_verdicts() == 0U);
  verdicts.held_dead(3, 1, 46);
  BOOST_TEST(verdicts.false_deaths() == 2U);
  verdicts.held_dead(3, 0, 47);
  BOOST_TEST(verdicts.false_deaths() == 2U);
  BOOST_TEST(verdicts.false_verdicts() == 2U);
}

BOOST_AUTO_TEST_CASE(a_path_that_loses_most_packets_reaches_nobody) {
  PlannedEvent bad = event_of(Kind::degrade, {1});
  bad.paths = {{{1}, {0, 2, 3}}};
  bad.conditions.loss = 0.8;
  verdicts.fault(bad, true, 20);
  verdicts.held_dead(1, 0, 30);
  BOOST_TEST(verdicts.false_deaths() == 0U);
  PlannedEvent fair = bad;
  fair.conditions.loss = 0.1;
  verdicts.fault(bad, false, 31);
  verdicts.fault(fair, true, 32);
  verdicts.held_dead(1, 0, 40);
  BOOST_TEST(verdicts.false_deaths() == 1U);
}

BOOST_AUTO_TEST_CASE(on_a_network_that_loses_most_packets_nobody_is_judged) {
  for (const double loss : {0.1, 0.6}) {
    Four four(plan_of_four(loss));
    four.verdicts.held_dead(1, 0, 20);
    BOOST_TEST(four.verdicts.false_deaths() == (loss < kLossOfNoPath ? 1U : 0U));
  }
}

BOOST_AUTO_TEST_CASE(a_join_is_no_fault_after_which_a_verdict_counts_again) {
  verdicts.held_dead(1, 0, 20);
  verdicts.fault(event_of(Kind::join, {3}), true, 22);
  verdicts.held_dead(1, 2, 30);
  BOOST_TEST(verdicts.false_deaths() == 1U);
}

BOOST_AUTO_TEST_CASE(a_percentile_is_a_value_that_this_share_does_not_exceed) {
  const auto table = nlohmann::json::parse(kPercentiles);
  for (const auto& entry : table) {
    const auto value = percentile(entry.at("values"), entry.at("part"));
    BOOST_TEST(value.has_value() == !entry.at("value").is_null(), entry.dump());
    if (value) BOOST_TEST(*value == entry.at("value").get<double>(), entry.dump());
  }
}

BOOST_AUTO_TEST_CASE(faults_are_over_when_the_last_one_is_and_all_have_started) {
  const auto table = nlohmann::json::parse(kFaultTimes);
  for (const auto& entry : table) {
    Plan plan;
    plan.scenario.duration = 60;
    for (const auto& event : entry.at("timeline")) {
      PlannedEvent& planned = plan.events.emplace_back(event_of(kind_of(event), {0}));
      planned.at = event.at("at");
      if (!event.at("until").is_null()) planned.until = event.at("until");
    }
    const FaultTimes times = fault_times(plan);
    const bool none = entry.at("first").is_null();
    BOOST_TEST(times.first == (none ? -1 : entry.at("first").get<double>()), entry.dump());
    BOOST_TEST(times.last == entry.at("last").get<double>(), entry.dump());
    BOOST_TEST(times.last_start == entry.at("last_start").get<double>(), entry.dump());
  }
}

BOOST_AUTO_TEST_SUITE_END()
