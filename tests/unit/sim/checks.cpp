// Tests that the checks see faults in the simulated world. tests/sim shows that they find planted
// bugs.
#include "sim/checks.hpp"

#include <string>

#include <boost/test/unit_test.hpp>
#include <fmt/core.h>

#include "hostile/attacker.hpp"
#include "sim/run.hpp"

using namespace starling;
using namespace starling::sim;

namespace {

Report report_of(const std::string& rest) {
  auto parsed = parse_scenario("[scenario]\nname = \"t\"\n" + rest +
                                   "[sim]\nproblem = \"quadratic\"\nelements = 32\nstep_ms = 40\n",
                               "t.toml");
  BOOST_REQUIRE_MESSAGE(parsed, (parsed ? "" : parsed.error().text));
  const auto plan = make_plan(std::move(*parsed));
  BOOST_REQUIRE(plan);
  auto report = run(*plan, {}, hostile::make_attacker);
  BOOST_REQUIRE_MESSAGE(report, (report ? "" : report.error().text));
  return std::move(*report);
}

double measured(const Report& report, const std::string& name) {
  for (const sim::Outcome& outcome : report.expectations) {
    if (outcome.name == name && outcome.value) return *outcome.value;
  }
  BOOST_FAIL(name + " was not measured");
  return 0;
}

/// Four peers whose run cannot continue if a path does not work.
const std::string kRing =
    "[peers]\ncount = 4\nvia = \"all\"\n"
    "[run]\nset = [\"exchange.mode=allreduce\", \"swarm.peers=4\"]\n";

std::string timeline(const std::string& kind, const std::string& peers, double at,
                     const std::string& more = "") {
  return fmt::format("[[timeline]]\nkind = \"{}\"\npeers = {}\nat = {}\n{}\n", kind, peers, at,
                     more);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(checks)

BOOST_AUTO_TEST_CASE(a_peer_that_ends_with_an_error_fails_the_run_unless_that_is_expected) {
  const std::string deadly = "duration = 60\n" + kRing + timeline("kill", "[1]", 40);
  const Report unexpected = report_of(deadly);
  BOOST_TEST(!unexpected.passed);
  BOOST_TEST(unexpected.failure.find("ended with an error") != std::string::npos,
             unexpected.failure);
  const Report expected = report_of(deadly + "[expect]\nfailed_max = 3\n");
  BOOST_TEST(expected.failure == "");
  BOOST_TEST(measured(expected, "failed_max") == 3.0);
  BOOST_TEST(expected.passed);
  BOOST_TEST(!report_of(deadly + "[expect]\nfailed_max = 2\n").passed);
}

BOOST_AUTO_TEST_CASE(a_run_whose_end_comes_early_ends_with_equal_replicas_all_the_same) {
  // Nothing disturbs it, and it has no time to settle.
  const auto end = [](const std::string& settle_timeout) {
    return report_of(
        "duration = 200\n[peers]\ncount = 4\nvia = \"all\"\n[network]\nlatency_ms = 60\n[run]\n"
        "set = [\"run.samples=60000\", \"exchange.every=100\", \"exchange.settle_timeout=" +
        settle_timeout + "\"]\n");
  };
  const Report hasty = end("0.1");
  BOOST_TEST(hasty.seconds < 150);
  BOOST_TEST(hasty.failure.find("the run ended with replicas") != std::string::npos, hasty.failure);
  BOOST_TEST(end("30").failure == "");
}

BOOST_AUTO_TEST_CASE(what_is_not_a_number_meets_no_limit) {
  const std::string diverging =
      "duration = 30\n[peers]\ncount = 2\n[run]\n"
      "set = [\"train.lr=100\", \"exchange.mode='none'\"]\n[expect]\n";
  const Report unexpected = report_of(diverging + "finished_min = 0\n");
  BOOST_TEST(unexpected.failure.find("is not finite") != std::string::npos, unexpected.failure);
  const Report expected = report_of(diverging + "failed_max = 2\noptimum_distance_max = 1\n");
  BOOST_TEST(expected.failure == "");
  BOOST_TEST(expected.expectations.size() == 2U);
  for (const sim::Outcome& outcome : expected.expectations) {
    BOOST_TEST(outcome.passed == (outcome.name == "failed_max"), outcome.name);
  }
}

BOOST_AUTO_TEST_CASE(a_death_is_noticed_later_than_the_news_of_a_goodbye_travels) {
  // As in scenarios/faults/first_death.toml. All others leave at the end of the run.
  const Report report = report_of(
      "duration = 120\n[peers]\ncount = 6\n[network]\nlatency_ms = 2\n"
      "[run]\nset = [\"run.samples=150000\"]\n" +
      timeline("kill", "[0]", 15) +
      "[expect]\nfinished_min = 5\ndetection_p50_s = 8\ndetection_p99_s = 15\n"
      "step_gap_max_s = 1\n");
  BOOST_TEST(report.passed, report.failure);
  BOOST_TEST(measured(report, "detection_p50_s") > 0.1);
  BOOST_TEST(measured(report, "detection_p99_s") > 0.1);
}

BOOST_AUTO_TEST_CASE(who_waits_for_a_ring_of_which_one_is_dead_need_not_go_on) {
  const Report report = report_of(
      "duration = 200\n[peers]\ncount = 2\nvia = \"all\"\n"
      "[run]\nset = [\"exchange.mode=allreduce\", \"swarm.peers=2\"]\n" +
      timeline("kill", "[1]", 30) + timeline("kill", "[0]", 30.05, "for = 10") +
      "[expect]\nfailed_max = 2\n");
  BOOST_TEST(report.failure == "");
  BOOST_TEST(measured(report, "failed_max") == 0.0);
}

BOOST_AUTO_TEST_CASE(tables_follow_who_comes_and_goes_as_often_as_it_does) {
  const Report report = report_of("duration = 90\n[peers]\ncount = 2\n" +
                                  timeline("leave", "[1]", 20, "for = 5\nevery = 10\nuntil = 60") +
                                  "[expect]\nverdicts_per_minute_max = 10\n");
  BOOST_TEST(report.passed, report.failure);
  BOOST_TEST(measured(report, "verdicts_per_minute_max") > 6);
}

BOOST_AUTO_TEST_CASE(where_nobody_dies_no_death_is_noticed) {
  const Report report =
      report_of("duration = 120\n[peers]\ncount = 4\n[run]\nset = [\"run.samples=30000\"]\n" +
                timeline("leave", "[1]", 10) + "[expect]\ndetection_p50_s = 100\n");
  BOOST_REQUIRE(report.expectations.size() == 1U);
  BOOST_TEST(!report.expectations[0].value.has_value());
}

BOOST_AUTO_TEST_CASE(a_stall_is_seen_in_a_peers_first_seconds) {
  const std::string cut = timeline("partition", "[1]", 12, "shape = \"one\"\nfor = 3");
  const Report report =
      report_of("duration = 60\n" + kRing + cut + "[expect]\nstep_gap_max_s = 2\n");
  BOOST_TEST(report.failure == "");
  BOOST_TEST(measured(report, "step_gap_max_s") > 2.9);
}

BOOST_AUTO_TEST_CASE(a_stall_is_seen_that_no_step_ends) {
  const std::string cut = timeline("partition", "[1]", 12, "shape = \"one\"");
  const std::string expect = "[expect]\nstep_gap_max_s = 2\nthroughput_min = 0.9\n";
  const Report cut_short = report_of("duration = 15\n" + kRing + cut + expect);
  BOOST_TEST(measured(cut_short, "step_gap_max_s") > 2.9);
  BOOST_TEST(measured(cut_short, "throughput_min") < 0.9);
  // It ends with an error, after the stall.
  const Report failed = report_of("duration = 60\n" + kRing + cut + expect + "failed_max = 4\n");
  BOOST_TEST(measured(failed, "step_gap_max_s") > 2.9);
}

BOOST_AUTO_TEST_CASE(where_nobody_runs_nothing_is_measured_of_tables_links_and_replicas) {
  const std::string names[] = {"one_view_within_s",          "views_full_within_s",
                               "drift_back_within_s",        "spectral_gap_min",
                               "membership_bytes_per_s_max", "sent_bytes_max"};
  std::string expect = "[expect]\n";
  for (const std::string& name : names) {
    expect += name + (name == "spectral_gap_min" ? " = 0\n" : " = 1000000\n");
  }
  // The deaths are the last fault, and no peer starts after them.
  const Report dead =
      report_of("duration = 60\n[peers]\ncount = 4\n" + timeline("kill", "\"all\"", 8) + expect);
  BOOST_TEST(!dead.passed);
  for (const sim::Outcome& outcome : dead.expectations) {
    const bool before = outcome.name == "views_full_within_s";  // they had their neighbours
    BOOST_TEST(outcome.value.has_value() == before, outcome.name);
  }
}

BOOST_AUTO_TEST_CASE(what_membership_costs_is_measured_while_peers_run) {
  const Report report = report_of(
      "duration = 300\n[peers]\ncount = 4\nvia = \"all\"\n[run]\nset = [\"run.samples=150000\"]\n"
      "[expect]\nfinished_min = 4\nmembership_bytes_per_s_max = 2048\n"
      "sent_bytes_max = 10000000\n");
  BOOST_TEST(report.passed, report.failure);
  BOOST_TEST(report.seconds < 250);
  const double rate = measured(report, "membership_bytes_per_s_max");
  BOOST_TEST(rate > 10.0);
  // Deltas count, too.
  BOOST_TEST(measured(report, "sent_bytes_max") > 2 * rate * report.seconds);
}

BOOST_AUTO_TEST_CASE(drift_is_not_back_while_replicas_are_apart) {
  const auto cut = [](const std::string& shape) {
    return report_of(
        "duration = 300\n[peers]\ncount = 6\n[run]\nset = [\"run.samples=4000000\"]\n" +
        timeline("partition", "\"all\"", 60, shape) + "[expect]\ndrift_back_within_s = 100\n");
  };
  const Report alone = cut("shape = \"one\"\nfor = 80");
  BOOST_TEST(alone.failure == "");
  BOOST_TEST(measured(alone, "drift_back_within_s") > 2.0);
  BOOST_TEST(measured(alone, "drift_back_within_s") < 100.0);
}

BOOST_AUTO_TEST_CASE(a_loss_is_that_of_peers_that_finished) {
  const Report unfinished = report_of(
      "duration = 20\n[peers]\ncount = 3\n[expect]\nloss_max = 100\nloss_ratio_max = 100\n");
  BOOST_TEST(unfinished.failure == "");
  for (const sim::Outcome& outcome : unfinished.expectations) {
    BOOST_TEST(!outcome.value.has_value(), outcome.name);
  }
  const Report finished = report_of(
      "duration = 200\n[peers]\ncount = 3\n[run]\nset = [\"run.samples=30000\"]\n"
      "[expect]\nloss_max = 100\nloss_ratio_max = 1.01\n");
  BOOST_TEST(finished.passed, finished.failure);
}

BOOST_AUTO_TEST_CASE(what_breaks_in_the_undisturbed_run_fails_the_one_that_is_compared_with_it) {
  // As above, it has no time to settle.
  const Report report = report_of(
      "duration = 300\n[peers]\ncount = 4\nvia = \"all\"\n[network]\nlatency_ms = 60\n[run]\n"
      "set = [\"run.samples=60000\", \"exchange.every=100\", \"exchange.settle_timeout=0.1\"]\n" +
      timeline("degrade", "\"all\"", 1, "latency_ms = 60\nfor = 120") +
      "[expect]\nloss_ratio_max = 5\n");
  BOOST_TEST(!report.passed);
  BOOST_TEST(report.failure.starts_with("undisturbed: the run ended with replicas"),
             report.failure);
}

BOOST_AUTO_TEST_CASE(a_cut_of_one_that_has_not_started_disturbs_it_alone_and_while_it_lasts) {
  const Report report = report_of(
      "duration = 150\n[peers]\ncount = 4\nspacing = 10\nvia = \"all\"\n[[timeline]]\n"
      "kind = \"partition\"\nshape = \"groups\"\ngroups = [[3], [0, 1, 2]]\nat = 5\nfor = 45\n"
      "[expect]\nfaulty_held_max = 0\none_view_within_s = 60\n");
  BOOST_TEST(report.passed, report.failure);
}

BOOST_AUTO_TEST_CASE(a_death_of_one_that_stands_still_is_not_judged) {
  const std::string stopped = "duration = 60\n[peers]\ncount = 5\nvia = \"all\"\n" +
                              timeline("stop", "[1]", 20, "for = 30") +
                              timeline("kill", "[1]", 20.5);
  const Report report = report_of(stopped + "[expect]\ndetection_p50_s = 20\n");
  BOOST_TEST(!report.expectations.at(0).value.has_value());
}

BOOST_AUTO_TEST_CASE(of_two_with_one_key_one_finishes) {
  const Report report = report_of(
      "duration = 200\n[peers]\ncount = 3\nvia = \"all\"\n[run]\n"
      "set = [\"run.samples=20000\"]\n" +
      timeline("twin", "[1]", 10, "for = 180") + "[expect]\nfinished_min = 4\n");
  BOOST_TEST(measured(report, "finished_min") <= 3.0);
}

BOOST_AUTO_TEST_CASE(replicas_are_compared_of_those_that_finished) {
  const std::string run =
      "duration = 100\n[peers]\ncount = 3\nvia = \"all\"\n[expect]\ndistance_max = 0.2\n";
  BOOST_TEST(!report_of(run).expectations.at(0).value.has_value());
  BOOST_TEST(report_of(run + "[run]\nset = [\"run.samples=20000\"]\n").passed);
}

BOOST_AUTO_TEST_CASE(hostile_peers_break_no_rule_and_are_not_measured) {
  for (const hostile::AttackTraits& traits : hostile::kAttacks) {
    if (traits.kind == hostile::AttackKind::label_flip) continue;
    const Report report = report_of(
        fmt::format("duration = 200\n[peers]\ncount = 6\n[run]\nset = [\"run.samples=30000\", "
                    "\"exchange.settle_timeout=2\"]\n"
                    "[[hostile]]\npeers = [2]\nattack = \"{}\"\n[expect]\nfinished_min = 5\n",
                    traits.name));
    BOOST_TEST_CONTEXT(traits.name) {
      BOOST_TEST(report.failure == "");
      BOOST_TEST(measured(report, "finished_min") == 5.0);
    }
  }
}

BOOST_AUTO_TEST_CASE(an_attack_shows_in_the_results_of_honest_peers) {
  const auto accuracy = [](const std::string& hostile, const std::string& measure) {
    return measured(report_of("duration = 200\n[peers]\ncount = 6\n[run]\nset = "
                              "[\"run.samples=30000\", \"exchange.settle_timeout=2\"]\n" +
                              hostile + "[expect]\naccuracy_min = 0\nworst_accuracy_min = 0\n"),
                    measure);
  };
  const std::string noise = "[[hostile]]\npeers = [2, 4]\nattack = \"noise\"\n";
  BOOST_TEST(accuracy(noise, "accuracy_min") < accuracy("", "accuracy_min"));
  BOOST_TEST(accuracy(noise, "worst_accuracy_min") <= accuracy(noise, "accuracy_min"));
}

BOOST_AUTO_TEST_CASE(without_somebody_who_plays_them_hostile_peers_are_refused) {
  auto parsed = parse_scenario(
      "[scenario]\nname = \"t\"\nduration = 5\n[peers]\ncount = 2\n"
      "[[hostile]]\npeers = [1]\nattack = \"zeros\"\n",
      "t.toml");
  BOOST_REQUIRE(parsed);
  const auto plan = make_plan(std::move(*parsed));
  BOOST_REQUIRE(plan);
  const auto report = run(*plan);
  BOOST_REQUIRE(!report);
  BOOST_TEST(report.error().text ==
             "t.toml:6: hostile: only the test program starling-sim plays hostile peers");
}

BOOST_AUTO_TEST_CASE(failures_of_one_kind_differ_in_numbers_alone) {
  const auto kind = [](const std::string& failure) {
    return kind_of_failure({.failure = failure, .expectations = {}, .happened = {}});
  };
  BOOST_TEST(kind("peer-3 settles for 40 s") == kind("peer-12 settles for 7 s"));
  BOOST_TEST(kind("peer-3 settles for 40 s") != kind("peer-3 finishes for 40 s"));
  BOOST_TEST(kind("replicas are nan from their mean") == kind("replicas are 0.3 from their mean"));
  BOOST_TEST(kind("") == "");
  Report report;
  report.expectations = {{.name = "a_max", .passed = true, .value = 1, .limit = 2},
                         {.name = "b_max", .passed = false, .value = 3, .limit = 2},
                         {.name = "c_max", .passed = false, .value = {}, .limit = 2}};
  const std::string has_value = kind_of_failure(report);
  report.expectations[1].value = 4;
  BOOST_TEST(kind_of_failure(report) == has_value);
  report.expectations[1].value.reset();
  BOOST_TEST(kind_of_failure(report) != has_value);
  report.expectations[1].passed = true;
  BOOST_TEST(kind_of_failure(report) != has_value);
}

BOOST_AUTO_TEST_SUITE_END()
