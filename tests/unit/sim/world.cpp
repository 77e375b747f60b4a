#include "sim/world.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <boost/test/unit_test.hpp>
#include <fmt/core.h>

#include "membership/limits.hpp"
#include "sim/random_scenario.hpp"
#include "sim/run.hpp"
#include "sim/shrink.hpp"

using namespace starling;
using namespace starling::sim;

namespace {

Plan plan_of(const std::string& rest, std::uint64_t seed = 1) {
  auto parsed = parse_scenario("[scenario]\nname = \"t\"\n" + rest, "t.toml");
  BOOST_REQUIRE_MESSAGE(parsed, (parsed ? "" : parsed.error().text));
  auto plan = make_plan(std::move(*parsed), seed);
  BOOST_REQUIRE(plan);
  return *plan;
}

std::unique_ptr<Task> task_of(const Plan& plan) {
  auto task = make_task(plan.scenario);
  BOOST_REQUIRE(task);
  return std::move(*task);
}

Report run_it(const Plan& plan) {
  const auto report = run(plan);
  BOOST_REQUIRE_MESSAGE(report, (report ? "" : report.error().text));
  BOOST_TEST_INFO("seed " << plan.seed);
  BOOST_TEST(report->failure == "");
  return *report;
}

double value_of(const Report& report, const std::string& name) {
  for (const sim::Outcome& outcome : report.expectations) {
    if (outcome.name == name && outcome.value) return *outcome.value;
  }
  BOOST_FAIL(name + " was not measured");
  return 0;
}

/// The trace's lines about a peer's links that come up or go down, from a time on.
std::vector<std::string> links_of(const Plan& plan, std::uint32_t peer, double from = 0) {
  const auto task = task_of(plan);
  std::vector<std::string> lines;
  const std::string start = fmt::format("  peer-{} link ", peer);
  World* running = nullptr;
  World world(plan, *task, [&](const std::string& line) {
    const auto at = line.find(start);
    if (at != std::string::npos && running->seconds() >= from) {
      lines.push_back(line.substr(at + start.size()));
    }
  });
  running = &world;
  world.run();
  return lines;
}

bool any_has(const std::vector<std::string>& lines, const std::string& part) {
  return std::ranges::any_of(
      lines, [&](const std::string& line) { return line.find(part) != std::string::npos; });
}

const std::string kMembers = "[sim]\nproblem = \"none\"\nstep_ms = 1000\n";
const std::string kBowl = "[sim]\nproblem = \"quadratic\"\nelements = 32\nstep_ms = 100\n";

}  // namespace

BOOST_AUTO_TEST_SUITE(world)

BOOST_AUTO_TEST_CASE(images_are_asked_for_only_where_there_are_some) {
  const Plan plan =
      plan_of("duration = 9\n[peers]\ncount = 2\n[run]\nset = [\"data.flip=true\"]\n");
  const auto task = make_task(plan.scenario);
  BOOST_REQUIRE(!task);
  BOOST_TEST(task.error().text.starts_with("data.crop and data.flip change images"));
}

BOOST_AUTO_TEST_CASE(a_swarm_finds_the_lowest_point_and_agrees) {
  const Report report =
      run_it(plan_of("duration = 60\n[peers]\ncount = 6\n[expect]\noptimum_distance_max = 0.1\n"
                     "views_full_within_s = 20\nfalse_deaths_max = 0\n" +
                     kBowl));
  for (const sim::Outcome& outcome : report.expectations) {
    BOOST_TEST(outcome.passed, outcome.name << " is " << outcome.value.value_or(-1));
  }
}

BOOST_AUTO_TEST_CASE(a_slow_peer_holds_nobody_up) {
  const auto report = [](const std::string& speeds, const std::string& run = "") {
    return run_it(plan_of("duration = 60\n[peers]\ncount = 4\nspeeds = [" + speeds + "]\n" + run +
                          "[expect]\nthroughput_min = 0.9\nstep_gap_max_s = 60\n" + kBowl));
  };
  const Report alike = report("1");
  const Report mixed = report("1, 1, 1, 0.25");
  // The rest of the time goes to exchanges; only a slow peer's neighbours ask it for some.
  BOOST_TEST(value_of(alike, "throughput_min") > 0.92);
  BOOST_TEST(value_of(mixed, "throughput_min") > 0.91);
  // The slow peer's steps are counted, too.
  BOOST_TEST(value_of(mixed, "step_gap_max_s") > 0.39);
  // With smaller batches it makes more of them, but no more samples than its speed allows.
  const Report small = report("1, 1, 1, 0.25", "[run]\nset = [\"train.batch_min=4\"]\n");
  BOOST_TEST(std::abs(value_of(small, "throughput_min") - value_of(mixed, "throughput_min")) <
             0.02);
}

BOOST_AUTO_TEST_CASE(peers_that_train_nothing_make_all_steps_that_their_speeds_allow) {
  const Report report =
      run_it(plan_of("duration = 60\n[peers]\ncount = 2\n[expect]\nthroughput_min = 0.9\n"
                     "[sim]\nproblem = \"none\"\nstep_ms = 100\n"));
  BOOST_TEST(value_of(report, "throughput_min") > 0.9);
  BOOST_TEST(value_of(report, "throughput_min") < 1.01);
}

BOOST_AUTO_TEST_CASE(the_peers_of_a_star_are_linked_with_its_middle) {
  const auto gap = [](const std::string& hub) {
    return value_of(run_it(plan_of("duration = 60\n[peers]\ncount = 5\nvia = \"all\"\n[run]\n"
                                   "set = [\"swarm.hub='" +
                                   hub + "'\"]\n[expect]\nspectral_gap_min = 0\n" + kBowl)),
                    "spectral_gap_min");
  };
  BOOST_TEST(gap("peer-0") > 0.1);
  BOOST_TEST(gap("nobody") == 0.0);
}

BOOST_AUTO_TEST_CASE(what_is_under_way_when_a_peer_is_stopped_ends_once_and_later) {
  const auto steps = [](const std::string& timeline) {
    const Plan plan = plan_of("duration = 60\n[peers]\ncount = 2\n" + timeline +
                              "[sim]\nproblem = \"quadratic\"\nelements = 32\nstep_ms = 1000\n");
    const auto task = task_of(plan);
    World world(plan, *task, {});
    world.run();
    return world.nodes()[1]->worker->step().value;
  };
  const auto undisturbed = steps("");
  // Stops shorter than a step, each within one step.
  const auto stopped =
      steps("[[timeline]]\nkind = \"stop\"\nat = 20.1\nevery = 2.05\npeers = [1]\nfor = 0.2\n");
  BOOST_TEST(stopped < undisturbed);
  BOOST_TEST(stopped + 6 > undisturbed);
}

BOOST_AUTO_TEST_CASE(of_faults_that_overlap_the_last_ends_it) {
  const auto at = [](double seconds, const std::string& timeline) {
    const Plan plan =
        plan_of("duration = 40\n[peers]\ncount = 2\nspeeds = [2]\n" + timeline + kBowl);
    const auto task = task_of(plan);
    World* running = nullptr;
    World world(plan, *task, [&](const std::string&) {
      if (running->seconds() >= seconds) running->stop();
    });
    running = &world;
    world.run();
    const Node& node = *world.nodes()[1];
    return std::tuple(node.state, node.speed, node.clock.rate(), node.folder.full);
  };
  const auto twice = [](const std::string& kind, const std::string& a, const std::string& b) {
    const std::string entry = "[[timeline]]\nkind = \"" + kind + "\"\npeers = [1]\n";
    return entry + "at = 10\nfor = 10\n" + a + entry + "at = 15\nfor = 10\n" + b;
  };
  const std::string stops = twice("stop", "", "");
  BOOST_TEST((std::get<0>(at(22, stops)) == NodeState::stopped));
  BOOST_TEST((std::get<0>(at(26, stops)) == NodeState::running));
  const std::string throttles = twice("throttle", "speed = 0.5\n", "speed = 0.25\n");
  BOOST_TEST(std::get<1>(at(12, throttles)) == 1.0);
  BOOST_TEST(std::get<1>(at(17, throttles)) == 0.5);
  BOOST_TEST(std::get<1>(at(22, throttles)) == 0.5);
  BOOST_TEST(std::get<1>(at(26, throttles)) == 2.0);
  const std::string skews = twice("skew", "rate = 2\n", "rate = 0.5\n");
  BOOST_TEST(std::get<2>(at(22, skews)) == 0.5);
  BOOST_TEST(std::get<2>(at(26, skews)) == 1.0);
  const std::string full = twice("disk_full", "", "");
  BOOST_TEST(std::get<3>(at(22, full)));
  BOOST_TEST(!std::get<3>(at(26, full)));
  // The stop applied to another process; the machine is still slow.
  const std::string again = "[[timeline]]\nkind = \"restart\"\nat = 18\npeers = [1]\n";
  BOOST_TEST((std::get<0>(at(19, stops + again)) == NodeState::running));
  BOOST_TEST(std::get<1>(at(19, throttles + again)) == 0.5);
}

BOOST_AUTO_TEST_CASE(who_cannot_write_starts_when_there_is_room) {
  const auto lives = [](const std::string& more, double until) {
    const Plan plan = plan_of(
        "duration = 40\n[peers]\ncount = 3\n[[timeline]]\nkind = \"disk_full\"\nat = 10\nfor = 20\n"
        "peers = [1]\n[[timeline]]\nkind = \"kill\"\nat = 12\npeers = [1]\nfor = 5\n" +
        more + kBowl);
    const auto task = task_of(plan);
    World* running = nullptr;
    World world(plan, *task, [&](const std::string&) {
      if (running->seconds() >= until) running->stop();
    });
    running = &world;
    world.run();
    const Node& node = *world.nodes()[1];
    return std::pair(node.is_up(), node.life);
  };
  BOOST_TEST((lives("", 29) == std::pair(false, 1U)));
  BOOST_TEST((lives("", 35) == std::pair(true, 2U)));
  // The peer is killed, or told to leave, while it waits.
  for (const char* kind : {"kill", "leave"}) {
    const std::string gone =
        fmt::format("[[timeline]]\nkind = \"{}\"\nat = 20\npeers = [1]\n", kind);
    BOOST_TEST((lives(gone, 35) == std::pair(false, 1U)), kind);
  }
}

BOOST_AUTO_TEST_CASE(who_is_behind_a_router_is_seen_at_its_outer_address) {
  const Plan plan = plan_of(
      "duration = 20\n[peers]\ncount = 2\n[[network.nat]]\npeers = [1]\nkind = \"moderate\"\n" +
      kMembers);
  const auto at_home = links_of(plan, 1);
  BOOST_REQUIRE(!at_home.empty());
  BOOST_TEST(any_has(at_home, "at 11.77.0.1:7000, dialed"));
  const auto outside = links_of(plan, 0);
  BOOST_REQUIRE(!outside.empty());
  BOOST_TEST(any_has(outside, "at 11.77.0.2:"));
  BOOST_TEST(!any_has(outside, "192.168."));
  BOOST_TEST(!any_has(outside, "dialed"));
  // If there are two, neither can be dialed.
  const Plan both = plan_of(
      "duration = 60\n[peers]\ncount = 2\n[[network.nat]]\nregion = \"local\"\nkind = "
      "\"strict\"\n" +
      kMembers);
  BOOST_TEST(links_of(both, 0).empty());
}

BOOST_AUTO_TEST_CASE(a_link_that_a_router_forgot_is_silent_and_another_is_made) {
  const std::string home = "duration = 100\n[peers]\ncount = 2\n[[network.nat]]\npeers = [1]\n";
  const auto after = [&](const std::string& nat, const std::string& event) {
    return links_of(plan_of(home + nat + "[[timeline]]\nat = 30\n" + event + kMembers), 1, 30);
  };
  const std::string moderate = "kind = \"moderate\"\n";
  const std::string off = "kind = \"router_restart\"\npeers = [1]\nfor = 1\n";
  for (const std::string& event :
       {std::string("kind = \"mapping_lost\"\npeers = [1]\n"), off, off + "address = \"new\"\n"}) {
    BOOST_TEST_CONTEXT(event) {
      const auto links = after(moderate, event);
      BOOST_TEST(any_has(links, "down"));
      BOOST_TEST(!any_has(links, "reset"));
      BOOST_TEST(any_has(links, "up"));
    }
  }
  // Nothing passes during a cut; a router that forgets before the cut ends has forgotten the link.
  const std::string cut = "kind = \"partition\"\nshape = \"halves\"\nfor = 3\n";
  BOOST_TEST(after(moderate, cut).empty());
  BOOST_TEST(any_has(after(moderate + "mapping = 2\n", cut), "up"));
}

BOOST_AUTO_TEST_CASE(a_peer_that_is_elsewhere_tells_it) {
  const auto links = [](const std::string& nat) {
    return links_of(
        plan_of("duration = 100\n[peers]\ncount = 2\n" + nat +
                "[[timeline]]\nkind = \"address_change\"\nat = 30\npeers = [1]\n" + kMembers),
        0, 30);
  };
  BOOST_TEST(any_has(links(""), "at peer-1-life-2-at-30.000:"));
  BOOST_TEST(
      any_has(links("[[network.nat]]\npeers = [1]\nkind = \"moderate\"\n"), "at 11.77.0.3:"));
}

BOOST_AUTO_TEST_CASE(whether_any_two_are_linked_is_measured) {
  const auto within = [](const std::string& nat) {
    const Report report = run_it(plan_of("duration = 40\n[peers]\ncount = 3\n" + nat +
                                         "[expect]\npairs_linked_within_s = 20\n"
                                         "paths_within_s = 20\ndirect = [[0, 1], [1, 2]]\n" +
                                         kMembers));
    BOOST_REQUIRE(report.expectations.size() == 2U);
    BOOST_TEST(report.expectations[0].value.has_value() ==
               report.expectations[1].value.has_value());
    return report.expectations[0].value;
  };
  BOOST_REQUIRE(within("").has_value());
  BOOST_TEST(*within("") < 20);
  // No peer reaches another.
  BOOST_TEST(!within("[[network.nat]]\nregion = \"local\"\nkind = \"firewall\"\n").has_value());
}

BOOST_AUTO_TEST_CASE(what_only_real_packets_show_is_refused) {
  for (const std::string key : {"mtu_black_hole = 1300", "proxy = \"socks5\""}) {
    const auto report = run(plan_of(
        "duration = 9\n[peers]\ncount = 2\n[[network.nat]]\npeers = [1]\nkind = \"moderate\"\n" +
        key + "\n" + kMembers));
    BOOST_REQUIRE(!report);
    BOOST_TEST(report.error().text == "t.toml:6: network.nat: '" + key.substr(0, key.find(' ')) +
                                          "' works only with real peers: scenarios/run t.toml");
  }
}

BOOST_AUTO_TEST_CASE(whose_run_is_over_does_not_restart) {
  const Plan plan = plan_of(
      "duration = 200\n[peers]\ncount = 4\nvia = \"all\"\n[run]\nset = [\"run.samples=40000\"]\n"
      "[[timeline]]\nkind = \"restart\"\nat = 150\npeers = [1]\ndisk = \"lost\"\n"
      "address = \"new\"\n[expect]\nfinished_min = 4\n" +
      kBowl);
  const Report report = run_it(plan);
  BOOST_TEST(report.passed);
  BOOST_TEST(report.seconds < 155);
}

BOOST_AUTO_TEST_CASE(nearly_all_exchanges_are_added_up) {
  for (const int count : {2, 6}) {
    for (const char* mode : {"tracked", "choco", "dense"}) {
      const Report report = run_it(plan_of(
          fmt::format("duration = 90\n[peers]\ncount = {}\n[run]\nset = [\"exchange.mode='{}'\"]\n"
                      "[[timeline]]\nkind = \"kill\"\nat = 40\npeers = [1]\nfor = 5\n",
                      count, mode) +
          kBowl));
      BOOST_TEST(report.ledger_coverage.value_or(0) > 0.95, count << " peers, " << mode);
    }
  }
}

BOOST_AUTO_TEST_CASE(all_paths_of_a_peer_share_its_line) {
  const auto exchanges = [](const std::string& rate) {
    const Plan plan = plan_of(
        "duration = 60\n[peers]\ncount = 4\nvia = \"all\"\nregions = [\"room\", \"room\", "
        "\"room\", "
        "\"home\"]\n[run]\nset = [\"exchange.every=1\"]\n[network]\nlatency_ms = 1\n" +
        rate + "[sim]\nproblem = \"quadratic\"\nelements = 32\nstep_ms = 10\n");
    const auto task = task_of(plan);
    World world(plan, *task, {});
    world.run();
    std::uint64_t sum = 0;
    for (const auto& [peer, link] : world.nodes()[3]->worker->ledger().links())
      sum += link.committed.value;
    return static_cast<double>(sum);
  };
  const double unlimited = exchanges("");
  const double each =
      exchanges("[[network.pair]]\nbetween = [\"room\", \"home\"]\nrate_mbit = 0.03\n");
  const double together = exchanges("[[network.line]]\nregion = \"home\"\nrate_mbit = 0.03\n");
  BOOST_TEST(each < 0.7 * unlimited);
  BOOST_TEST(together > 0.2 * each);
  BOOST_TEST(together < 0.5 * each);
}

BOOST_AUTO_TEST_CASE(what_waits_for_a_slow_path_goes_faster_once_the_path_does) {
  // A keyframe has 100 kB and takes 40 s at this rate; only a few seconds of it are over when the
  // degradation ends.
  const Plan plan = plan_of(
      "duration = 60\n[peers]\ncount = 2\nvia = \"all\"\n[network]\nlatency_ms = 5\n"
      "[[timeline]]\nkind = \"degrade\"\nat = 15\nfor = 10\nbetween = [\"local\", \"local\"]\n"
      "rate_mbit = 0.02\n[[timeline]]\nkind = \"join\"\nat = 20\n"
      "[sim]\nproblem = \"quadratic\"\nelements = 100000\nstep_ms = 100\n");
  const auto task = task_of(plan);
  double trains_at = 0;
  World* running = nullptr;
  World world(plan, *task, [&](const std::string& line) {
    const bool steps = line.find("peer-2 outcome: step done") != std::string::npos;
    if (steps && trains_at == 0) trains_at = running->seconds();
  });
  running = &world;
  world.run();
  BOOST_TEST(trains_at > 25);
  BOOST_TEST(trains_at < 28);
}

BOOST_AUTO_TEST_CASE(what_a_dead_process_had_not_sent_keeps_its_line_from_nobody) {
  const Plan plan = plan_of(
      "duration = 60\n[peers]\ncount = 3\nvia = \"all\"\n"
      "regions = [\"room\", \"room\", \"room\", \"home\"]\n[network]\nlatency_ms = 5\n"
      "[[network.line]]\nregion = \"home\"\nrate_mbit = 0.02\n[[timeline]]\nkind = \"join\"\n"
      "at = 20\nregion = \"home\"\n[[timeline]]\nkind = \"restart\"\nat = 30\npeers = [3]\n"
      "[expect]\none_view_within_s = 10\n"
      "[sim]\nproblem = \"quadratic\"\nelements = 100000\nstep_ms = 100\n");
  BOOST_TEST(run_it(plan).passed);
}

BOOST_AUTO_TEST_CASE(the_same_seed_does_the_same_and_another_something_else) {
  const std::string text =
      "duration = 40\n[peers]\ncount = 5\n[network]\nloss = 0.05\njitter_ms = 5\n[[timeline]]\n"
      "kind = \"kill\"\nat = 10\npeers = \"random 2\"\nfor = 8\n" +
      kBowl;
  const Report first = run_it(plan_of(text, 3));
  BOOST_TEST(first.events > 1000U);
  BOOST_TEST(run_it(plan_of(text, 3)).trace_hash == first.trace_hash);
  BOOST_TEST(run_it(plan_of(text, 4)).trace_hash != first.trace_hash);
}

BOOST_AUTO_TEST_CASE(what_is_in_the_frames_is_in_the_hash) {
  // Two runs that differ only in their messages: assigned shards are not trained.
  const auto hash = [](const std::string& seed) {
    return run_it(plan_of("duration = 20\n[peers]\ncount = 3\n[run]\nset = [\"run.seed=" + seed +
                          "\"]\n[sim]\nproblem = \"none\"\nstep_ms = 1000\n"));
  };
  const Report one = hash("1");
  const Report two = hash("2");
  BOOST_TEST(one.events == two.events);
  BOOST_TEST(one.trace_hash != two.trace_hash);
}

BOOST_AUTO_TEST_CASE(a_damaged_frame_is_refused_and_breaks_its_link_and_nobody_is_blamed) {
  const Plan plan =
      plan_of("duration = 60\n[peers]\ncount = 3\n[network]\ncorrupt = 0.003\n" + kBowl);
  const auto task = task_of(plan);
  std::size_t refused = 0;
  std::size_t broken = 0;
  std::size_t blamed = 0;
  World world(plan, *task, [&](const std::string& line) {
    refused += line.find("refuses a damaged frame") != std::string::npos ? 1 : 0;
    broken += line.find("ended: reset") != std::string::npos ? 1 : 0;
    blamed += line.find("ended: banned") != std::string::npos ? 1 : 0;
  });
  world.run();
  BOOST_TEST(refused > 0U);
  BOOST_TEST(broken >= refused);
  BOOST_TEST(blamed == 0U);
}

BOOST_AUTO_TEST_CASE(a_death_is_noticed_and_nobody_else_is_taken_for_dead) {
  const Report report =
      run_it(plan_of("duration = 120\n[peers]\ncount = 8\n[[timeline]]\nkind = \"kill\"\nat = 60\n"
                     "peers = [0, 5]\n[expect]\ndetection_p99_s = 30\nfalse_deaths_max = 0\n"
                     "one_view_within_s = 40\n[sim]\nproblem = \"none\"\nstep_ms = 1000\n"));
  BOOST_TEST(value_of(report, "detection_p99_s") > 0.0);
  BOOST_TEST(report.passed);
}

BOOST_AUTO_TEST_CASE(halves_train_on_and_merge_when_the_cut_heals) {
  const Report report = run_it(
      plan_of("duration = 260\n[peers]\ncount = 8\n[[timeline]]\nkind = \"partition\"\nat = 30\n"
              "for = 60\n[expect]\none_view_within_s = 90\noptimum_distance_max = 0.1\n" +
              kBowl));
  for (const sim::Outcome& outcome : report.expectations) {
    BOOST_TEST(outcome.passed, outcome.name << " is " << outcome.value.value_or(-1));
  }
}

BOOST_AUTO_TEST_CASE(a_restart_with_its_disk_goes_on_where_it_was) {
  const Plan plan = plan_of(
      "duration = 90\n[peers]\ncount = 4\n[[timeline]]\nkind = \"kill\"\nat = 50\npeers = [1]\n"
      "for = 5\n[[timeline]]\nkind = \"kill\"\nat = 50\npeers = [2]\nfor = 5\ndisk = \"lost\"\n" +
      kBowl);
  const auto task = task_of(plan);
  World world(plan, *task, {});
  world.run();
  const auto samples = [&](std::size_t i) {
    return world.nodes()[i]->core->status(world.local(*world.nodes()[i])).samples;
  };
  BOOST_TEST(samples(1) > samples(2) + 16 * 200);
  BOOST_TEST(samples(0) > samples(1));
}

BOOST_AUTO_TEST_CASE(who_comes_back_at_a_new_address_is_found_there_and_not_where_it_was) {
  const Plan plan = plan_of(
      "duration = 60\n[peers]\ncount = 4\n[[timeline]]\nkind = \"kill\"\nat = 30\n"
      "peers = [0]\nfor = 5\naddress = \"new\"\n"
      "[[timeline]]\nkind = \"join\"\nat = 40\n[sim]\nproblem = \"none\"\nstep_ms = 1000\n");
  const auto task = task_of(plan);
  World world(plan, *task, {});
  world.run();
  const Node& moved = *world.nodes()[0];
  BOOST_TEST(moved.address != "peer-0:1");
  BOOST_TEST(world.nodes()[4]->join == std::vector{moved.address});
  for (const std::size_t other : {1U, 2U, 3U, 4U}) {
    const auto* held = world.nodes()[other]->core->membership().table().find(moved.id);
    BOOST_REQUIRE(held != nullptr);
    BOOST_TEST(membership::counts_as_alive(held->state));
    BOOST_TEST(held->addresses == std::vector{moved.address});
  }
}

BOOST_AUTO_TEST_CASE(a_frame_that_takes_long_is_heard_and_nobody_is_accused_meanwhile) {
  // A keyframe has 200 kB and takes 16 s.
  const Plan plan = plan_of(
      "duration = 120\n[peers]\ncount = 2\nregions = [\"room\", \"room\", "
      "\"home\"]\n[network]\nlatency_ms = 1\n"
      "[[network.pair]]\nbetween = [\"room\", \"home\"]\nlatency_ms = 20\nrate_mbit = 0.1\n"
      "[[timeline]]\nkind = \"join\"\nat = 30\ncount = 1\nregion = \"home\"\n"
      "[run]\nset = [\"run.samples=100000\"]\n"
      "[sim]\nproblem = \"quadratic\"\nelements = 200000\nstep_ms = 200\n");
  const auto task = task_of(plan);
  std::size_t parts = 0;
  std::string accusations;
  World world(plan, *task, [&](const std::string& line) {
    if (line.find("peer-2 arriving") != std::string::npos) ++parts;
    if (line.find("suspect") != std::string::npos) accusations += line + "\n";
  });
  world.run();
  BOOST_TEST(parts > 20U);
  BOOST_TEST(accusations.empty(), accusations);
  const Node& late = *world.nodes()[2];
  BOOST_TEST(!late.core->exchange().may_adopt());
  BOOST_TEST(late.core->exchange().open_links() == 2U);
  BOOST_TEST(late.worker->step().value > 100U);
}

BOOST_AUTO_TEST_CASE(a_peer_whose_trainer_stands_keeps_no_joiner_from_training) {
  // The slow peer's core answers for it, and the joiner has no other address.
  const Plan plan = plan_of(
      "duration = 120\n[peers]\ncount = 3\n[[timeline]]\nkind = \"throttle\"\nat = 20\n"
      "peers = [0]\nspeed = 0.001\n[[timeline]]\nkind = \"join\"\nat = 30\ncount = 1\n"
      "[run]\nset = [\"run.samples=100000\"]\n" +
      kBowl);
  const auto task = task_of(plan);
  World world(plan, *task, {});
  world.run();
  const Node& late = *world.nodes()[3];
  BOOST_TEST(!late.core->exchange().may_adopt());
  BOOST_TEST(late.worker->step().value > 100U);
}

BOOST_AUTO_TEST_CASE(who_comes_back_with_its_wall_clock_set_back_is_held_alive) {
  bool was_set_back = false;
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    const Plan plan = plan_of(
        "duration = 60\n[peers]\ncount = 4\n[[timeline]]\nkind = \"kill\"\nat = 30\n"
        "peers = [1]\nfor = 5\n[sim]\nproblem = \"none\"\nstep_ms = 1000\n",
        seed);
    const auto task = task_of(plan);
    World world(plan, *task, {});
    world.run();
    const Node& back = *world.nodes()[1];
    // It learned of its incarnation in its former life, and went beyond.
    was_set_back |= back.core->membership().self().incarnation > back.incarnation + 1;
    for (const std::size_t other : {0U, 2U, 3U}) {
      const auto* held = world.nodes()[other]->core->membership().table().find(back.id);
      BOOST_REQUIRE(held != nullptr);
      BOOST_TEST(membership::counts_as_alive(held->state));
      BOOST_TEST(held->incarnation >= back.incarnation);
    }
  }
  BOOST_TEST(was_set_back);
}

BOOST_AUTO_TEST_CASE(who_has_a_full_disk_to_the_end_is_not_blamed_for_it) {
  run_it(
      plan_of("duration = 200\n[peers]\ncount = 3\n[[timeline]]\nkind = \"disk_full\"\nat = 20\n"
              "peers = [1]\n"));
}

BOOST_AUTO_TEST_CASE(random_scenarios_pass_and_read_back) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    BOOST_TEST_CONTEXT("seed " << seed) {
      const Scenario scenario = random_scenario(seed);
      const auto parsed = parse_scenario(to_toml(scenario), "t.toml");
      BOOST_REQUIRE_MESSAGE(parsed, (parsed ? "" : parsed.error().text));
      const auto plan = make_plan(scenario);
      BOOST_REQUIRE(plan);
      run_it(*plan);
    }
  }
}

BOOST_AUTO_TEST_CASE(shrinking_leaves_fewer_peers_and_shorter_faults) {
  const Plan plan = plan_of(
      "duration = 90\n[peers]\ncount = 9\n[run]\nset = [\"swarm.degree=3\", \"run.seed=2\"]\n"
      "[[timeline]]\nkind = \"stop\"\nat = 1\npeers = \"random 4\"\nfor = 40\n");
  const Scenario small = shrink(plan.scenario, [](const Scenario& scenario) {
    return scenario.count >= 4 && scenario.timeline.size() == 1 &&
           scenario.timeline[0].duration > 9 && std::ranges::count(scenario.set, "run.seed=2") == 1;
  });
  BOOST_TEST(small.count == 4U);
  BOOST_TEST(small.set.size() == 1U);
  BOOST_TEST(small.timeline[0].duration.value_or(0) == 10.0);
  BOOST_TEST(small.timeline[0].peers->count == 1U);
}

BOOST_AUTO_TEST_CASE(shrinking_keeps_what_is_needed_alone) {
  const Plan plan = plan_of(
      "duration = 90\n[peers]\ncount = 4\n"
      "[[timeline]]\nkind = \"kill\"\nat = 1\npeers = [1]\n"
      "[[timeline]]\nkind = \"stop\"\nat = 2\npeers = [2]\nfor = 1\n"
      "[[timeline]]\nkind = \"kill\"\nat = 3\npeers = [3]\n"
      "[[timeline]]\nkind = \"stop\"\nat = 4\npeers = [0]\nfor = 1\n");
  const Scenario small = shrink(plan.scenario, [](const Scenario& scenario) {
    return std::ranges::any_of(scenario.timeline, [](const Entry& e) { return e.at == 3; });
  });
  BOOST_REQUIRE(small.timeline.size() == 1U);
  BOOST_TEST(small.timeline[0].at == 3.0);
}

BOOST_AUTO_TEST_SUITE_END()
