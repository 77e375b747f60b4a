#include "sim/language/plan.hpp"

#include <algorithm>
#include <string>

#include <boost/test/unit_test.hpp>
#include <nlohmann/json.hpp>

using namespace starling;
using namespace starling::sim;

namespace {

Plan plan_with(const std::string& timeline, int count = 8, std::uint64_t seed = 1) {
  const std::string head = "[scenario]\nname = \"t\"\nduration = 300\n[peers]\ncount = ";
  auto parsed = parse_scenario(head + std::to_string(count) + "\n" + timeline, "t.toml");
  BOOST_REQUIRE(parsed);
  auto plan = make_plan(std::move(*parsed), seed);
  BOOST_REQUIRE(plan);
  return *plan;
}

std::vector<PlannedEvent> of_kind(const Plan& plan, Kind kind) {
  std::vector<PlannedEvent> found;
  std::ranges::copy_if(plan.events, std::back_inserter(found),
                       [&](const PlannedEvent& event) { return event.kind == kind; });
  return found;
}

/// Whether anything passes from one peer to another.
bool passes(const PlannedEvent& cut, std::uint32_t from, std::uint32_t to) {
  return std::ranges::none_of(cut.paths, [&](const Paths& paths) {
    return std::ranges::binary_search(paths.from, from) && std::ranges::binary_search(paths.to, to);
  });
}

}  // namespace

BOOST_AUTO_TEST_SUITE(plan)

BOOST_AUTO_TEST_CASE(all_start_and_join_by_the_first) {
  const Plan plan = plan_with("");
  std::size_t started = 0;
  for (const PlannedEvent& event : plan.events) {
    BOOST_TEST((event.kind == Kind::join));
    started += event.peers.size();
    const bool is_first = event.peers.front() == 0;
    BOOST_TEST(event.via == (is_first ? std::vector<std::uint32_t>{} : std::vector{0U}));
  }
  BOOST_TEST(started == 8U);
}

BOOST_AUTO_TEST_CASE(a_kill_for_some_time_brings_a_restart) {
  const Plan plan = plan_with(
      "[[timeline]]\nkind = \"kill\"\nevery = 60\npeers = \"random 2\"\nfor = 30\n"
      "disk = \"lost\"\naddress = \"new\"\n");
  const auto kills = of_kind(plan, Kind::kill);
  const auto restarts = of_kind(plan, Kind::restart);
  BOOST_REQUIRE(kills.size() == 4U);
  BOOST_REQUIRE(restarts.size() == 4U);
  for (std::size_t i = 0; i < kills.size(); ++i) {
    BOOST_TEST(kills[i].at == 60.0 * static_cast<double>(i + 1));
    BOOST_TEST(kills[i].peers.size() == 2U);
    BOOST_TEST(restarts[i].at == kills[i].at + 30);
    BOOST_TEST(restarts[i].peers == kills[i].peers);
    BOOST_TEST((restarts[i].disk == Disk::lost));
    BOOST_TEST((restarts[i].address == Address::fresh));
  }
}

BOOST_AUTO_TEST_CASE(only_those_that_run_are_killed) {
  const Plan plan = plan_with("[[timeline]]\nkind = \"kill\"\nevery = 10\npeers = \"random 3\"\n");
  std::vector<std::uint32_t> dead;
  for (const PlannedEvent& event : of_kind(plan, Kind::kill)) {
    dead.insert(dead.end(), event.peers.begin(), event.peers.end());
  }
  std::ranges::sort(dead);
  BOOST_TEST(dead.size() == 8U);
  BOOST_TEST((std::ranges::adjacent_find(dead) == dead.end()));
}

BOOST_AUTO_TEST_CASE(a_rolling_restart_takes_each_in_turn) {
  const Plan plan =
      plan_with("[[timeline]]\nkind = \"restart\"\nevery = 10\nuntil = 80\npeers = \"next\"\n");
  const auto restarts = of_kind(plan, Kind::restart);
  BOOST_REQUIRE(restarts.size() == 8U);
  BOOST_TEST(of_kind(plan, Kind::kill).size() == 8U);
  for (std::uint32_t i = 0; i < 8; ++i) BOOST_TEST(restarts[i].peers == std::vector{i});
}

BOOST_AUTO_TEST_CASE(who_runs_restarts_only_where_it_is_named) {
  const std::string restart = "[[timeline]]\nkind = \"restart\"\nat = 20\npeers = ";
  for (const char* peers : {"\"all\"", "\"random 2\"", "\"first\"", "\"region local\""}) {
    BOOST_TEST_CONTEXT(peers) {
      const Plan nobody = plan_with(restart + peers + "\n");
      BOOST_TEST(of_kind(nobody, Kind::restart).empty());
      BOOST_TEST(of_kind(nobody, Kind::kill).empty());
      const Plan one = plan_with("[[timeline]]\nkind = \"kill\"\nat = 10\npeers = [5]\n" + restart +
                                 peers + "\n");
      BOOST_REQUIRE(of_kind(one, Kind::restart).size() == 1U);
      BOOST_TEST(of_kind(one, Kind::restart)[0].peers == std::vector{5U});
      BOOST_TEST(of_kind(one, Kind::kill).size() == 1U);
    }
  }
  const Plan running = plan_with(restart + "[1, 5]\n");
  BOOST_REQUIRE(of_kind(running, Kind::kill).size() == 1U);
  BOOST_TEST(of_kind(running, Kind::kill)[0].peers == (std::vector{1U, 5U}));
}

BOOST_AUTO_TEST_CASE(halves_are_cut_both_ways) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    BOOST_TEST_CONTEXT("seed " << seed) {
      const Plan plan =
          plan_with("[[timeline]]\nkind = \"partition\"\nat = 5\nfor = 10\n", 9, seed);
      const auto cuts = of_kind(plan, Kind::partition);
      BOOST_REQUIRE(cuts.size() == 1U);
      BOOST_TEST(*cuts[0].until == 15.0);
      for (std::uint32_t a = 0; a < 9; ++a) {
        int reached = 0;
        for (std::uint32_t b = 0; b < 9; ++b) {
          BOOST_TEST(passes(cuts[0], a, b) == passes(cuts[0], b, a));
          reached += passes(cuts[0], a, b) ? 1 : 0;
        }
        BOOST_TEST((reached == 4 || reached == 5));
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(in_a_ring_each_reaches_a_majority_but_not_all) {
  const Plan plan =
      plan_with("[[timeline]]\nkind = \"partition\"\nshape = \"ring\"\nat = 5\nfor = 10\n", 16);
  const auto cuts = of_kind(plan, Kind::partition);
  for (std::uint32_t a = 0; a < 16; ++a) {
    int reached = 0;
    for (std::uint32_t b = 0; b < 16; ++b) reached += passes(cuts[0], a, b) ? 1 : 0;
    BOOST_TEST(reached > 8);
    BOOST_TEST(reached < 16);
  }
}

BOOST_AUTO_TEST_CASE(a_bridge_reaches_both_parts) {
  const Plan plan =
      plan_with("[[timeline]]\nkind = \"partition\"\nshape = \"bridge\"\nat = 5\nfor = 10\n", 9);
  const auto cuts = of_kind(plan, Kind::partition);
  int bridges = 0;
  for (std::uint32_t a = 0; a < 9; ++a) {
    int reached = 0;
    for (std::uint32_t b = 0; b < 9; ++b) reached += passes(cuts[0], a, b) ? 1 : 0;
    BOOST_TEST((reached == 5 || reached == 9));
    bridges += reached == 9 ? 1 : 0;
  }
  BOOST_TEST(bridges == 1);
}

BOOST_AUTO_TEST_CASE(a_flip_flop_turns_around) {
  const Plan plan = plan_with(
      "[[timeline]]\nkind = \"partition\"\nshape = \"flip_flop\"\npeers = [2]\nat = 10\n"
      "for = 6\nperiod = 2\n");
  const auto cuts = of_kind(plan, Kind::partition);
  BOOST_REQUIRE(cuts.size() == 3U);
  for (std::size_t i = 0; i < cuts.size(); ++i) {
    BOOST_TEST(passes(cuts[i], 2, 0) == (i % 2 == 1));
    BOOST_TEST(passes(cuts[i], 0, 2) == (i % 2 == 0));
    BOOST_TEST(passes(cuts[i], 0, 1));
    BOOST_TEST(*cuts[i].until == cuts[i].at + 2);
  }
}

BOOST_AUTO_TEST_CASE(a_swizzle_cuts_one_after_the_other_and_ends_in_another_order) {
  const Plan plan = plan_with(
      "[[timeline]]\nkind = \"partition\"\nshape = \"swizzle\"\npeers = [0, 1, 2, 3, 4, 5]\n"
      "at = 10\nfor = 30\n");
  const auto cuts = of_kind(plan, Kind::partition);
  BOOST_REQUIRE(cuts.size() == 6U);
  std::vector<std::uint32_t> back(6);
  for (std::size_t i = 0; i < 6; ++i) {
    BOOST_REQUIRE(cuts[i].peers.size() == 1U);
    const std::uint32_t peer = cuts[i].peers[0];
    back[i] = static_cast<std::uint32_t>(i);
    BOOST_TEST((cuts[i].at >= 10 && cuts[i].at <= 20));
    BOOST_TEST((*cuts[i].until >= 30 && *cuts[i].until <= 40));
    BOOST_TEST((i == 0 || cuts[i - 1].at < cuts[i].at));
    BOOST_TEST(!passes(cuts[i], peer, 7));
    BOOST_TEST(!passes(cuts[i], 7, peer));
    BOOST_TEST(passes(cuts[i], 6, 7));
  }
  std::ranges::sort(back, {}, [&](std::uint32_t i) { return *cuts[i].until; });
  BOOST_TEST(!std::ranges::is_sorted(back));
}

BOOST_AUTO_TEST_CASE(heal_ends_what_has_no_end) {
  const Plan plan = plan_with(
      "[[timeline]]\nkind = \"partition\"\nat = 10\n[[timeline]]\nkind = \"heal\"\nat = 25\n");
  const auto cuts = of_kind(plan, Kind::partition);
  BOOST_REQUIRE(cuts.size() == 1U);
  BOOST_TEST(cuts[0].until.value_or(0) == 25.0);
  BOOST_TEST(of_kind(plan, Kind::heal).empty());
}

BOOST_AUTO_TEST_CASE(heal_ends_what_is_cut_in_turns_and_what_has_an_end) {
  for (const char* shape :
       {"flip_flop\"\nperiod = 3\npeers = [1]", "swizzle\"\npeers = [1, 2, 3, 4]", "halves\""}) {
    BOOST_TEST_CONTEXT(shape) {
      const Plan plan = plan_with(
          "[[timeline]]\nkind = \"partition\"\nat = 10\nfor = 40\nshape = \"" + std::string(shape) +
          "\n[[timeline]]\nkind = \"heal\"\nat = 16\n"
          "[[timeline]]\nkind = \"degrade\"\nat = 16\npeers = [0]\nloss = 0.1\n");
      BOOST_TEST(!of_kind(plan, Kind::partition).empty());
      for (const PlannedEvent& cut : of_kind(plan, Kind::partition)) {
        BOOST_TEST(cut.at < 16);
        BOOST_TEST((cut.until > cut.at && cut.until <= 16));
      }
      // A fault that begins at that moment, but is listed below, is not healed.
      BOOST_TEST(of_kind(plan, Kind::degrade).size() == 1U);
    }
  }
}

BOOST_AUTO_TEST_CASE(the_seed_decides_whom_it_strikes) {
  const std::string timeline = "[[timeline]]\nkind = \"kill\"\nat = 9\npeers = \"random 10%\"\n";
  BOOST_TEST(to_json(plan_with(timeline, 100, 1)) == to_json(plan_with(timeline, 100, 1)));
  BOOST_TEST(to_json(plan_with(timeline, 100, 1)) != to_json(plan_with(timeline, 100, 2)));
  BOOST_TEST(of_kind(plan_with(timeline, 100), Kind::kill)[0].peers.size() == 10U);
}

BOOST_AUTO_TEST_CASE(joiners_get_the_next_numbers) {
  const Plan plan = plan_with("[[timeline]]\nkind = \"join\"\nat = 9\ncount = 3\nspacing = 1\n");
  BOOST_TEST(plan.peers.size() == 11U);
  BOOST_TEST(plan.events.back().at == 11.0);
  BOOST_TEST(plan.events.back().peers == std::vector{10U});
}

BOOST_AUTO_TEST_CASE(a_peer_that_there_is_not_is_an_error) {
  auto parsed = parse_scenario(
      "[scenario]\nname = \"t\"\nduration = 30\n[peers]\ncount = 4\n[[timeline]]\n"
      "kind = \"kill\"\nat = 1\npeers = [4]\n",
      "t.toml");
  BOOST_REQUIRE(parsed);
  const auto plan = make_plan(std::move(*parsed));
  BOOST_REQUIRE(!plan);
  BOOST_TEST(plan.error().text.find("t.toml:6: kill: there is no peer 4") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(what_would_never_happen_is_an_error) {
  const auto error_of = [](const std::string& when) {
    auto parsed = parse_scenario(
        "[scenario]\nname = \"t\"\nduration = 30\n[peers]\ncount = 4\n[[timeline]]\n"
        "kind = \"kill\"\npeers = [1]\n" +
            when,
        "t.toml");
    BOOST_REQUIRE(parsed);
    const auto plan = make_plan(std::move(*parsed));
    return plan ? std::string() : plan.error().text;
  };
  BOOST_TEST(error_of("at = 30\n") ==
             "t.toml:6: kill: at 30 s the scenario is over: it lasts 30 s");
  BOOST_TEST(error_of("every = 40\n") ==
             "t.toml:6: kill: at 40 s the scenario is over: it lasts 30 s");
  BOOST_TEST(error_of("at = 10\nevery = 2\nuntil = 9\n") ==
             "t.toml:6: kill: until 9 s is before it begins, at 10 s");
  BOOST_TEST(error_of("at = 29\nevery = 2\nuntil = 40\n") == "");
}

BOOST_AUTO_TEST_CASE(cuts_that_would_fill_the_memory_are_an_error) {
  auto parsed = parse_scenario(
      "[scenario]\nname = \"t\"\nduration = 3000\n[peers]\ncount = 4096\n[[timeline]]\n"
      "kind = \"partition\"\nat = 1\nfor = 2000\nshape = \"flip_flop\"\nperiod = 0.1\npeers = "
      "[1]\n",
      "t.toml");
  BOOST_REQUIRE(parsed);
  const auto plan = make_plan(std::move(*parsed));
  BOOST_REQUIRE(!plan);
  BOOST_TEST(
      plan.error().text ==
      "t.toml:6: partition: with it, events strike more than 67108864 peers and ends of paths");
}

BOOST_AUTO_TEST_CASE(who_joins_during_a_cut_is_cut_off_as_well) {
  const std::string join = "[[timeline]]\nkind = \"join\"\nat = 20\ncount = 2\n";
  const auto cut_with = [&](const std::string& shape) {
    return of_kind(plan_with("[[timeline]]\nkind = \"partition\"\nat = 10\nfor = 30\nshape = " +
                             shape + "\n" + join),
                   Kind::partition);
  };
  const auto one = cut_with("\"one\"\npeers = [3]");
  BOOST_TEST(!passes(one[0], 3, 8));
  BOOST_TEST(!passes(one[0], 9, 3));
  BOOST_TEST(passes(one[0], 8, 9));
  const auto asymmetric = cut_with("\"asymmetric\"\npeers = [3]");
  BOOST_TEST(!passes(asymmetric[0], 3, 8));
  BOOST_TEST(passes(asymmetric[0], 8, 3));
  for (const auto& turn : cut_with("\"flip_flop\"\npeers = [3]\nperiod = 10")) {
    BOOST_TEST(passes(turn, 3, 9) != passes(turn, 9, 3));
  }
  for (const char* shape : {"\"halves\"", "\"minority\"", "\"bridge\""}) {
    const auto parts = cut_with(shape);
    int reached = 0;
    for (std::uint32_t peer = 0; peer < 8; ++peer) reached += passes(parts[0], peer, 8) ? 1 : 0;
    BOOST_TEST((reached > 0 && reached < 8), shape);
  }
}

BOOST_AUTO_TEST_CASE(who_joins_a_region_in_a_degradation_has_its_conditions) {
  auto parsed = parse_scenario(
      "[scenario]\nname = \"t\"\nduration = 60\n[peers]\ncount = 2\n"
      "regions = [\"a\", \"b\"]\n[[timeline]]\nkind = \"degrade\"\nat = 5\nfor = 30\n"
      "between = [\"a\", \"b\"]\nloss = 0.1\n[[timeline]]\nkind = \"join\"\nat = 10\n"
      "region = \"b\"\n[[timeline]]\nkind = \"join\"\nat = 40\nregion = \"b\"\n",
      "t.toml");
  BOOST_REQUIRE(parsed);
  const auto plan = make_plan(std::move(*parsed));
  BOOST_REQUIRE(plan);
  const auto degraded = of_kind(*plan, Kind::degrade);
  BOOST_TEST(!passes(degraded[0], 0, 2));
  BOOST_TEST(!passes(degraded[0], 2, 0));
  BOOST_TEST(passes(degraded[0], 0, 3));
}

BOOST_AUTO_TEST_CASE(no_fault_finds_a_peer_before_it_has_started) {
  auto parsed = parse_scenario(
      "[scenario]\nname = \"t\"\nduration = 60\n[peers]\ncount = 4\nspacing = 10\n"
      "[[timeline]]\nkind = \"kill\"\nat = 5\nfor = 2\npeers = \"last\"\n"
      "[[timeline]]\nkind = \"restart\"\nat = 15\npeers = [3]\n"
      "[[timeline]]\nkind = \"stop\"\nat = 25\nfor = 1\npeers = \"all\"\n",
      "t.toml");
  BOOST_REQUIRE(parsed);
  const auto plan = make_plan(std::move(*parsed));
  BOOST_REQUIRE(plan);
  BOOST_TEST(of_kind(*plan, Kind::kill)[0].peers == std::vector{0U});
  BOOST_TEST(of_kind(*plan, Kind::restart).size() == 1U);
  BOOST_TEST(of_kind(*plan, Kind::stop)[0].peers == (std::vector{0U, 1U, 2U}));
}

BOOST_AUTO_TEST_CASE(an_entry_strikes_the_same_whatever_else_there_is) {
  const std::string stop =
      "[[timeline]]\nkind = \"stop\"\nat = 10\nfor = 1\npeers = \"random 3\"\n";
  const std::string kill =
      "[[timeline]]\nkind = \"kill\"\nat = 20\npeers = \"random 3\"\nfor = 5\n";
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    const auto alone = of_kind(plan_with(kill, 16, seed), Kind::kill);
    const auto beside = of_kind(plan_with(stop + kill, 16, seed), Kind::kill);
    BOOST_TEST(alone[0].peers == beside[0].peers);
    const auto twice = of_kind(plan_with(kill + kill, 16, seed), Kind::kill);
    BOOST_TEST(twice[0].peers == alone[0].peers);
    BOOST_TEST(twice[1].peers != alone[0].peers);
  }
}

BOOST_AUTO_TEST_CASE(nothing_comes_at_the_end_or_later) {
  const Plan plan = plan_with(
      "[[timeline]]\nkind = \"kill\"\nevery = 50\npeers = \"random 1\"\nfor = 60\n"
      "[[timeline]]\nkind = \"join\"\nat = 298\ncount = 3\nspacing = 1\n");
  for (const PlannedEvent& event : plan.events) BOOST_TEST(event.at < 300);
  BOOST_TEST(of_kind(plan, Kind::kill).size() == 5U);
  BOOST_TEST(of_kind(plan, Kind::restart).size() == 4U);
  BOOST_TEST(fault_times(plan).last == 299.0);
}

BOOST_AUTO_TEST_CASE(a_router_that_is_off_cuts_all_who_are_behind_it_from_the_rest) {
  const std::string homes =
      "[[network.nat]]\npeers = [1, 2]\nkind = \"moderate\"\nshared = true\n"
      "[[network.nat]]\npeers = [4, 5]\nkind = \"firewall\"\n";
  const auto restart = [&](const std::string& peers) {
    const auto events = of_kind(
        plan_with(homes + "[[timeline]]\nkind = \"router_restart\"\nat = 5\nfor = 2\npeers = " +
                  peers + "\n"),
        Kind::router_restart);
    BOOST_REQUIRE(events.size() == 1U);
    return events[0];
  };
  const PlannedEvent one = restart("[1]");
  BOOST_TEST(one.peers == (std::vector{1U, 2U}));
  BOOST_TEST(*one.until == 7.0);
  BOOST_TEST(!passes(one, 0, 2));
  BOOST_TEST(!passes(one, 1, 3));
  BOOST_TEST(passes(one, 1, 2));
  BOOST_TEST(passes(one, 4, 5));
  const PlannedEvent all = restart("\"all\"");
  BOOST_TEST(all.peers == (std::vector{1U, 2U, 4U, 5U}));
  BOOST_TEST(passes(all, 1, 2));
  BOOST_TEST(!passes(all, 4, 5));
  const Plan lost =
      plan_with(homes + "[[timeline]]\nkind = \"mapping_lost\"\nat = 5\npeers = [2]\n");
  BOOST_TEST(of_kind(lost, Kind::mapping_lost)[0].peers == std::vector{2U});
  BOOST_TEST(fault_times(lost).last == 5.0);
}

BOOST_AUTO_TEST_CASE(what_peers_are_behind_must_be_clear) {
  const auto error = [](const std::string& rest) {
    auto parsed = parse_scenario(
        "[scenario]\nname = \"t\"\nduration = 60\n[peers]\ncount = 4\n" + rest, "t.toml");
    BOOST_REQUIRE_MESSAGE(parsed, (parsed ? "" : parsed.error().text));
    const auto plan = make_plan(std::move(*parsed));
    BOOST_REQUIRE(!plan);
    return plan.error().text;
  };
  const std::string home = "[[network.nat]]\nkind = \"strict\"\npeers = ";
  BOOST_TEST(error(home + "[4]\n") ==
             "t.toml:6: network.nat: there is no peer 4: there are 4, from 0");
  BOOST_TEST(error(home + "[1]\n" + home + "[0, 1]\n") ==
             "t.toml:9: network.nat: peer-1 is in an earlier entry, too");
  BOOST_TEST(
      error(home + "[1]\n[[timeline]]\nkind = \"mapping_lost\"\nat = 1\npeers = [2]\n") ==
      "t.toml:9: mapping_lost: peer 2 is behind no router: a [[network.nat]] entry says who is");
  BOOST_TEST(error(home + "[1]\n[[timeline]]\nkind = \"twin\"\nat = 1\nfor = 2\npeers = [2]\n") ==
             "t.toml:9: twin: does not go with [[network.nat]]: no router leads to a twin");
  const std::string zeros = "attack = \"zeros\"\n";
  const std::string first = "[[hostile]]\npeers = [1]\n" + zeros;
  BOOST_TEST(error(first + first) == "t.toml:9: hostile.peers: peer 1 is in another entry, too");
  BOOST_TEST(error("[[hostile]]\npeers = [4]\n" + zeros) ==
             "t.toml:6: hostile.peers: peer 4 does not exist");
  BOOST_TEST(error("[expect]\npaths_within_s = 5\ncircuit = [[0, 4]]\n") ==
             "t.toml: expect.circuit: there is no peer 4: there are 4, from 0");
}

BOOST_AUTO_TEST_CASE(the_plan_says_what_each_peer_is_behind) {
  const auto json = nlohmann::json::parse(
      to_json(plan_with("[[network.nat]]\npeers = [1, 2]\nkind = \"cgnat\"\nshared = true\n"
                        "mapping = 30\n[expect]\npaths_within_s = 5\ncircuit = [[1, 0]]\n")));
  const auto& peers = json.at("peers");
  BOOST_TEST(peers[0].at("nat").is_null());
  BOOST_TEST(peers[1].at("nat").at("kind") == "cgnat");
  BOOST_TEST(peers[1].at("nat").at("mapping") == 30.0);
  BOOST_TEST(peers[1].at("nat").at("router") == peers[2].at("nat").at("router"));
  BOOST_TEST(json.at("paths").at("circuit") == nlohmann::json::parse("[[0, 1]]"));
}

BOOST_AUTO_TEST_CASE(hostile_peers_are_those_that_the_scenario_names) {
  const Plan plan = plan_with(
      "relays = [2]\n[[hostile]]\npeers = \"first 3\"\nattack = \"zeros\"\n"
      "[[hostile]]\npeers = \"random 50%\"\nattack = \"scale\"\nfactor = 2\n"
      "[[timeline]]\nkind = \"join\"\nat = 9\ncount = 3\n");
  std::size_t scale = 0;
  for (const PlannedPeer& peer : plan.peers) {
    const bool zeros = peer.attack && peer.attack->kind == hostile::AttackKind::zeros;
    BOOST_TEST(zeros == (peer.number == 0 || peer.number == 1 || peer.number == 3));
    scale += peer.attack && peer.attack->kind == hostile::AttackKind::scale ? 1 : 0;
  }
  // Of the other 7, joiners among them.
  BOOST_TEST(scale == 4U);
  BOOST_TEST(!plan.peers[2].attack.has_value());
}

BOOST_AUTO_TEST_CASE(the_plan_says_how_a_peer_attacks) {
  const auto json = nlohmann::json::parse(
      to_json(plan_with("[[hostile]]\npeers = [1]\nattack = \"scale\"\nfrom = 3\n"
                        "[[hostile]]\npeers = [2]\nattack = \"stale\"\nfrom = \"settling\"\n")));
  const auto& peers = json.at("peers");
  BOOST_TEST(peers[0].at("attack").is_null());
  BOOST_TEST(peers[1].at("attack") ==
             nlohmann::json::parse(R"({"kind": "scale", "factor": 1000.0, "from": 3.0})"));
  BOOST_TEST(peers[2].at("attack") ==
             nlohmann::json::parse(R"({"kind": "stale", "factor": null, "from": "settling"})"));
}

BOOST_AUTO_TEST_CASE(the_plan_is_json) {
  const auto json = nlohmann::json::parse(to_json(plan_with(
      "[[timeline]]\nkind = \"partition\"\nat = 10\nfor = 5\n[expect]\naccuracy_min = 0.8\n")));
  BOOST_TEST(json.at("peers").size() == 8U);
  BOOST_TEST(json.at("timeline").back().at("paths").size() == 2U);
  BOOST_TEST(json.at("expect")[0].at("limit").get<double>() == 0.8);
}

BOOST_AUTO_TEST_SUITE_END()
