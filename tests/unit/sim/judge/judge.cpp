// Logs of runs with real peers in, verdicts out.
#include "sim/judge/judge.hpp"

#include <optional>
#include <span>
#include <string>
#include <vector>

#include <boost/test/unit_test.hpp>
#include <nlohmann/json.hpp>

#include "sim/judge/observations.hpp"
#include "tests/temporary_folder.hpp"
#include "train/safetensors.hpp"

using namespace starling;
using namespace starling::sim;

namespace {

using Json = nlohmann::json;
using Numbers = std::vector<std::uint32_t>;

/// A log in the laboratory's format: `count` peers run from 0 on.
class Log {
 public:
  /// `more`: added to the scenario.
  explicit Log(const std::string& more = "", std::uint32_t count = 3)
      : scenario_(
            "[scenario]\nname = \"t\"\nduration = 600\n[sim]\nproblem = \"none\"\n"
            "step_ms = 100\n[peers]\ncount = " +
            std::to_string(count) + "\n" + more),
        count_(count) {
    begin(false);
  }

  void begin(bool undisturbed) {
    write({{"kind", "run"},
           {"format", 1},
           {"file", "t.toml"},
           {"scenario", scenario_},
           {"seed", 1},
           {"undisturbed", undisturbed}});
    for (std::uint32_t i = 0; i < count_; ++i) start(0, i);
  }
  void write(const Json& line) { text_ += line.dump() + "\n"; }
  void add(double at, const std::string& kind, Json line) {
    line["at"] = at;
    line["kind"] = kind;
    write(line);
  }
  void start(double at, std::uint32_t peer, bool disk_full = false) {
    add(at, "start", {{"peer", peer}, {"disk_full", disk_full}});
  }
  void end(double at, std::uint32_t peer, int code, bool cannot_start = false) {
    add(at, "end", {{"peer", peer}, {"code", code}, {"cannot_start", cannot_start}});
  }
  /// `number`: counted after the first two events, which start the peers.
  void event(double at, std::uint32_t number, bool begins = true) {
    add(at, "event", {{"event", 2 + number}, {"begins", begins}});
  }
  void members(double at, std::uint32_t peer, const Numbers& alive, const Numbers& dead = {},
               const Numbers& left = {}) {
    add(at, "members", {{"peer", peer}, {"alive", alive}, {"dead", dead}, {"left", left}});
  }
  void all_see(double at, const Numbers& alive, const Numbers& dead = {}) {
    for (const std::uint32_t peer : alive) members(at, peer, alive, dead);
  }
  void status(double at, std::uint32_t peer, const Json& more) {
    Json line{{"peer", peer}, {"phase", "training"}, {"steps", 0},           {"samples", 0},
              {"links", 0},   {"drift", nullptr},    {"membership_bytes", 0}};
    line.update(more);
    add(at, "status", line);
  }
  void over(double at) { add(at, "over", Json::object()); }
  void summary(double at, std::uint32_t peer, double loss, const std::string& replica = "") {
    add(at, "summary",
        {{"peer", peer},
         {"done", true},
         {"accuracy", 0.5},
         {"loss", loss},
         {"sent_bytes", 1000},
         {"replica", replica}});
  }

  [[nodiscard]] const std::string& text() const { return text_; }
  [[nodiscard]] Verdict verdict(const std::string& folder = ".") const {
    const auto log = parse_observations(text_, "log");
    BOOST_REQUIRE_MESSAGE(log, (log ? "" : log.error().text));
    auto verdict = judge(*log, folder);
    BOOST_REQUIRE_MESSAGE(verdict, (verdict ? "" : verdict.error().text));
    return std::move(*verdict);
  }
  /// Ends the log and measures it.
  [[nodiscard]] Measured measured(double at) {
    over(at);
    return verdict().measured;
  }

 private:
  std::string scenario_;
  std::uint32_t count_;
  std::string text_;
};

std::string timeline(const std::string& kind, const std::string& peers, double at,
                     const std::string& more = "") {
  return "[[timeline]]\nkind = \"" + kind + "\"\npeers = " + peers +
         "\nat = " + std::to_string(at) + "\n" + more + "\n";
}

void check(const std::optional<double>& value, std::optional<double> expected) {
  BOOST_REQUIRE(value.has_value() == expected.has_value());
  if (value) BOOST_TEST(*value == *expected, boost::test_tools::tolerance(1e-9));
}

}  // namespace

BOOST_AUTO_TEST_SUITE(a_judge)

BOOST_AUTO_TEST_CASE(counts_each_observer_of_a_death) {
  Log log(timeline("kill", "[2]", 10));
  log.all_see(9, {0, 1, 2});
  log.event(10, 0);
  log.members(13, 0, {0, 1}, {2});
  log.members(14.5, 1, {0, 1}, {2});
  const Measured measured = log.measured(60);
  check(measured[Measure::detection_p50_s], 3);
  check(measured[Measure::detection_p99_s], 4.5);
  check(measured[Measure::false_deaths_max], 0);
}

BOOST_AUTO_TEST_CASE(counts_a_death_that_was_not_noticed_with_the_time_there_was) {
  for (const double back_at : {12.0, 40.0}) {
    Log log(timeline("kill", "[2]", 10));
    log.all_see(9, {0, 1, 2});
    log.event(10, 0);
    log.start(11, 2, true);  // and ends at once, so it is not back
    log.end(11.5, 2, 3, true);
    log.start(back_at, 2);
    const Measured measured = log.measured(60);
    check(measured[Measure::detection_p50_s], back_at == 40 ? std::optional(30.0) : std::nullopt);
    check(measured[Measure::failed_max], 0);
  }
}

BOOST_AUTO_TEST_CASE(finds_a_peer_false_that_is_held_dead_and_can_be_reached) {
  Log log(timeline("kill", "[2]", 22) + timeline("partition", "[0]", 40, "shape = \"one\""));
  log.all_see(9, {0, 1, 2});
  log.members(20, 0, {0, 2}, {1});
  log.members(21, 2, {0, 2}, {1});  // the same death
  log.event(22, 0);
  log.members(23, 0, {0, 1, 2});
  log.members(24, 0, {0, 2}, {1});
  log.members(25, 0, {0, 1}, {2});
  log.event(40, 1);
  log.members(50, 0, {0}, {1, 2});  // cut off
  const Verdict verdict = (log.over(60), log.verdict());
  check(verdict.measured[Measure::false_deaths_max], 2);
  BOOST_TEST(verdict.notes.at(0) ==
             "at 20.00 s peer-0 takes peer-1 for dead, which runs and can be reached");
}

BOOST_AUTO_TEST_CASE(takes_a_goodbye_for_no_death_though_it_is_heard_before_the_process_has_ended) {
  Log log(timeline("leave", "[1]", 15));
  log.all_see(9, {0, 1, 2});
  log.event(15, 0);
  log.members(16, 0, {0, 2}, {}, {1});
  log.members(20, 0, {0}, {}, {1, 2});  // its own run ends soon
  log.end(22, 2, 0);
  check(log.measured(60)[Measure::false_deaths_max], 0);
  Log runs_on;
  runs_on.all_see(9, {0, 1, 2});
  runs_on.members(20, 0, {0, 1}, {}, {2});
  runs_on.end(26, 2, 0);
  check(runs_on.measured(60)[Measure::false_deaths_max], 1);
}

BOOST_AUTO_TEST_CASE(asks_that_one_view_lasts) {
  Log log(timeline("mapping_lost", "[0]", 40) +
          "[[network.nat]]\npeers = [0]\nkind = \"moderate\"\n");
  log.event(40, 0);
  log.all_see(51, {0, 1, 2});
  log.members(52, 1, {0, 1}, {2});
  log.members(60, 1, {0, 1, 2});
  log.members(64, 0, {0, 1, 2});
  check(log.measured(90)[Measure::one_view_within_s], 20);
}

BOOST_AUTO_TEST_CASE(asks_for_one_view_of_those_that_run_until_they_begin_to_end) {
  Log log(timeline("kill", "[2]", 10));
  log.all_see(9, {0, 1, 2});
  log.event(10, 0);
  log.all_see(11, {0, 1, 2}, {});
  Log too_late = log;
  too_late.status(12, 0, {{"phase", "settling"}});
  for (Log* const one : {&log, &too_late}) {
    one->all_see(15, {0, 1}, {2});
    one->all_see(19, {0, 1}, {2});
  }
  check(log.measured(60)[Measure::one_view_within_s], 5);
  check(too_late.measured(60)[Measure::one_view_within_s], std::nullopt);
}

BOOST_AUTO_TEST_CASE(counts_changes_of_mind_by_the_minute) {
  Log log;
  log.members(5, 0, {0, 1, 2});
  for (int i = 0; i < 4; ++i) {
    log.members(10 + 25 * i, 0, i % 2 == 0 ? Numbers{0, 1} : Numbers{0, 1, 2},
                i % 2 == 0 ? Numbers{2} : Numbers{});
  }
  check(log.measured(90)[Measure::verdicts_per_minute_max], 3);
}

BOOST_AUTO_TEST_CASE(finds_tables_full_when_all_that_run_have_their_neighbours) {
  Log log;
  log.add(1, "settings", {{"degree", 6}, {"batch", 8}});
  log.status(2, 0, {{"links", 2}});
  log.status(3, 1, {{"links", 2}});
  log.status(4, 2, {{"links", 1}});
  log.start(5, 0);
  log.status(6, 2, {{"links", 2}});
  log.status(7, 0, {{"links", 2}});
  check(log.measured(9)[Measure::views_full_within_s], 7);
}

BOOST_AUTO_TEST_CASE(measures_steps_of_peers_that_nothing_holds_up) {
  Log log(timeline("stop", "[1]", 50, "for = 5"), 2);
  log.add(0.5, "settings", {{"degree", 1}, {"batch", 8}});
  for (int i = 0; i < 5; ++i) {
    log.status(1 + i, 0, {{"steps", 10 * i}, {"samples", 40 * i}});
    log.status(1 + i, 1, {{"steps", i / 4}});
  }
  log.status(8.5, 0, {{"phase", "settling"}, {"steps", 40}, {"samples", 160}});
  log.status(30, 0, {{"phase", "finishing"}, {"steps", 40}, {"samples", 160}});
  const Measured measured = log.measured(60);
  check(measured[Measure::step_gap_max_s], 3.5);
  // 120 samples after the first observed ones, at 10 steps of 8 a second.
  check(measured[Measure::throughput_min], 120.0 / (8 * 10 * 6.5));
}

BOOST_AUTO_TEST_CASE(measures_how_far_apart_peers_end_that_are_done) {
  Log none(timeline("leave", "[1]", 10), 4);
  none.event(10, 0);
  none.end(11, 1, 0);
  Log log = none;
  log.end(20, 0, 0);
  log.end(22.5, 2, 0);
  log.end(30, 3, 1);
  check(none.measured(60)[Measure::ends_within_s], std::nullopt);
  check(log.measured(60)[Measure::ends_within_s], 2.5);
}

BOOST_AUTO_TEST_CASE(measures_membership_once_tables_are_filled) {
  Log log("", 1);
  for (int i = 0; i < 50; ++i) {
    log.status(i, 0, {{"membership_bytes", i < 30 ? 100 * i : 3000 + 10 * (i - 30)}});
  }
  check(log.measured(60)[Measure::membership_bytes_per_s_max], 10);
}

BOOST_AUTO_TEST_CASE(finds_drift_back_when_its_mean_is) {
  const auto back = [](double end) {
    Log log(timeline("stop", "[0]", 20, "for = 20"), 2);
    for (int t = 10; t < end; ++t) {
      if (t < 20 || t >= 40) log.status(t, 1, {{"drift", t < 20 || t >= 60 ? 0.1 : 0.5}});
    }
    return log.measured(90)[Measure::drift_back_within_s];
  };
  check(back(80), 20);
  check(back(60), std::nullopt);
}

BOOST_AUTO_TEST_CASE(takes_pairs_for_linked_when_both_say_so_and_as_either_end_names_it) {
  Log log(
      "[expect]\npairs_linked_within_s = 5\npaths_within_s = 1\n"
      "direct = [[0, 1]]\ncircuit = [[0, 2]]\n");
  const auto links = [&](double at, std::uint32_t peer, const Numbers& direct,
                         const Numbers& circuit) {
    log.add(at, "links", {{"peer", peer}, {"direct", direct}, {"circuit", circuit}});
  };
  links(1, 0, {}, {1, 2});
  links(2, 1, {0, 2}, {});
  links(3, 2, {0}, {});
  links(4, 2, {0, 1}, {});
  Log wrong = log;
  links(4.5, 0, {1}, {2});
  wrong.over(6);
  log.over(6);
  const Verdict verdict = wrong.verdict();
  check(verdict.measured[Measure::pairs_linked_within_s], 1);  // since all answered
  check(verdict.measured[Measure::paths_within_s], std::nullopt);
  BOOST_TEST(!verdict.passed);
  BOOST_TEST(
      verdict.notes == std::vector<std::string>{"peer-0 and peer-1: circuit, expected: direct"},
      boost::test_tools::per_element());
  check(log.verdict().measured[Measure::paths_within_s], 1.5);
}

BOOST_AUTO_TEST_CASE(expects_no_error_unless_the_scenario_does) {
  for (const std::string expected : {"", "[expect]\nfailed_max = 2\n"}) {
    Log log(expected);
    log.end(5, 0, -11);
    log.end(6, 1, 0);
    log.over(7);
    log.end(8, 2, 1);
    const Verdict verdict = log.verdict();
    check(verdict.measured[Measure::failed_max], 2);
    BOOST_TEST(verdict.passed == !expected.empty());
    BOOST_TEST(verdict.expectations.at(0).name == "failed_max");
  }
}

BOOST_AUTO_TEST_CASE(compares_with_the_same_run_undisturbed) {
  Log log("[expect]\nloss_ratio_max = 1.5\nfinished_min = 2\naccuracy_min = 0.5\n");
  log.over(5);
  log.summary(6, 0, 1);
  log.summary(6, 2, 2);
  log.begin(true);
  log.over(4);
  log.summary(6, 0, 1);
  const Verdict verdict = log.verdict();
  check(verdict.measured[Measure::loss_ratio_max], 1.5);
  BOOST_TEST(verdict.passed);
  const Json json = Json::parse(to_json(verdict));
  BOOST_TEST(json.at("passed").get<bool>());
  BOOST_TEST(json.at("expectations").size() == 3U);
  BOOST_TEST(json.at("measured").at("step_gap_max_s").is_null());
}

BOOST_AUTO_TEST_CASE(reads_replicas_for_their_distance_from_the_mean) {
  const testing::TemporaryFolder folder;
  Log log("[expect]\ndistance_max = 0.6\n");
  log.over(5);
  for (std::uint32_t i = 0; i < 3; ++i) {
    const float scale = i < 2 ? 1 : 2;
    const std::vector<float> values{3 * scale, 4 * scale};
    const std::vector<train::TensorView> tensors{
        {.name = "w", .shape = {2}, .values = std::span<const float>(values)}};
    const std::string name = "replica-" + std::to_string(i);
    std::string bytes;
    const std::string header = train::safetensors_header(tensors);
    for (const base::ByteView part : train::safetensors_parts(header, tensors)) {
      bytes += base::text_of(part);
    }
    folder.write(name, bytes);
    log.summary(6, i, 1, name);
  }
  check(log.verdict(folder.path()).measured[Measure::distance_max], 0.5);
  const auto read = parse_observations(log.text(), "log");
  const auto without = judge(*read, "nowhere");
  BOOST_REQUIRE(!without);
  BOOST_TEST(without.error().text.find("--keep") != std::string::npos, without.error().text);
}

BOOST_AUTO_TEST_CASE(refuses_a_bad_log_and_says_where_and_what_is_wrong) {
  const auto refused = [](const std::string& text, const std::string& said) {
    const auto log = parse_observations(text, "log.jsonl");
    BOOST_REQUIRE_MESSAGE(!log, said);
    BOOST_TEST((log.error().code == base::ErrorCode::data));
    BOOST_TEST(log.error().text.find(said) != std::string::npos, log.error().text);
    BOOST_TEST(log.error().text.find("scenarios/run") != std::string::npos);
  };
  const auto after = [&](const std::string& line, const std::string& said) {
    refused(Log(timeline("stop", "[1]", 5, "for = 5")).text() + line + "\n",
            "log.jsonl:5: " + said);
  };
  refused("", "log.jsonl:0: the log ends before the run");
  refused(Log().text(), "the log ends before the run");
  refused(R"({"kind":"over","at":1})"
          "\n",
          "log.jsonl:1: a log begins with a line of kind 'run'");
  refused("{\n", "log.jsonl:1: the line is not a JSON object");
  refused(R"({"kind":"run")", "the line breaks off");
  refused(R"({"kind":"run","format":2,"file":"t","scenario":"","seed":1,"undisturbed":false})"
          "\n",
          "'format' must be 1");
  refused(R"({"kind":"run","format":1,"file":"t","scenario":"","seed":1,"undisturbed":false})"
          "\n",
          "t: ");
  after(R"({"kind":"over","at":-1})", "'at' must be");
  after(R"({"kind":"over","at":1,"more":1})", "'more' is unknown here");
  after(R"({"kind":"glance","at":1,"peer":0})", "kind 'glance' is unknown");
  after(R"({"kind":"start","at":1,"peer":3,"disk_full":false})", "'peer' must be a whole number");
  after(R"({"kind":"start","at":1,"peer":0})", "'disk_full' must be true or false");
  after(R"({"kind":"event","at":1,"event":3,"begins":true})", "the scenario has 3 events");
  after(R"({"kind":"event","at":1,"event":2,"begins":false})", "event 2 cannot end now");
  after(R"({"kind":"members","at":1,"peer":0,"alive":[0,1],"dead":[1],"left":[]})",
        "'dead' must be a list that has each peer from 0 to 2 once");
  after(R"({"kind":"end","at":1,"peer":0,"code":1000,"cannot_start":false})", "'code' must be");
  Log over;
  over.over(5);
  refused(over.text() + Log().text(), "a log has one run");
  over.members(6, 0, {});
  refused(over.text(), "after 'over' there are only");
}

BOOST_AUTO_TEST_SUITE_END()
