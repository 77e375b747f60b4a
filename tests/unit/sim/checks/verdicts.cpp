#include "sim/checks/verdicts.hpp"

#include <fstream>

#include <boost/test/unit_test.hpp>
#include <nlohmann/json.hpp>

#include "membership/record.hpp"
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

/// What real peers are judged by as well.
nlohmann::json judged() { return nlohmann::json::parse(std::ifstream(JUDGED)); }

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

/// Four peers that run since 0; subjects have the numbers of their peers.
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

BOOST_AUTO_TEST_CASE(an_unnoticed_death_counts_where_it_does_for_real_peers) {
  const auto table = judged();
  for (const auto& entry : table.at("unnoticed")) {
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

BOOST_AUTO_TEST_CASE(who_is_to_notice_a_death_behind_a_cut_is_what_it_is_for_real_peers) {
  const auto table = judged();
  for (const auto& entry : table.at("deaths")) {
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
    // Each at a time of its own.
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

BOOST_AUTO_TEST_CASE(a_percentile_is_what_real_peers_are_judged_by) {
  const auto table = judged();
  for (const auto& entry : table.at("percentiles")) {
    const auto value = percentile(entry.at("values"), entry.at("part"));
    BOOST_TEST(value.has_value() == !entry.at("value").is_null(), entry.dump());
    if (value) BOOST_TEST(*value == entry.at("value").get<double>(), entry.dump());
  }
}

BOOST_AUTO_TEST_CASE(who_is_held_gone_is_what_real_peers_are_judged_by) {
  const auto table = judged();
  for (const auto& entry : table.at("held")) {
    using wire::MemberState;
    const auto state = entry.at("state") == "alive"  ? MemberState::alive
                       : entry.at("state") == "dead" ? MemberState::dead
                                                     : MemberState::left;
    BOOST_TEST(membership::counts_as_alive(state) != entry.at("false").get<bool>(), entry.dump());
  }
}

BOOST_AUTO_TEST_CASE(faults_are_over_when_they_are_for_real_peers) {
  const auto table = judged();
  for (const auto& entry : table.at("fault_times")) {
    Plan plan;
    plan.scenario.duration = table.at("duration");
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
