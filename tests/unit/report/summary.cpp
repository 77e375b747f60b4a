#include "report/summary.hpp"

#include <limits>

#include <boost/test/unit_test.hpp>
#include <nlohmann/json.hpp>

#include "base/file.hpp"
#include "tests/swarm_summary.hpp"
#include "tests/temporary_folder.hpp"

using namespace starling::report;

namespace {

PeerSummary peer(const std::string& name, double accuracy) {
  return {.name = name,
          .id = std::string(64, 'a'),
          .run = std::string(32, 'b'),
          .end = "done",
          .accuracy = accuracy,
          .loss = 0.5,
          .samples = 6400,
          .steps = 100,
          .seconds = 12.5,
          .bytes_sent =
              {.total = 15, .delta = 1, .keyframe = 2, .membership = 3, .reduce = 4, .other = 5},
          .bytes_received = {.total = 7, .delta = 7},
          .exchanges = 50,
          .drift = 0.004,
          .settled = true,
          .left_out = {{.name = "late", .id = std::string(64, 'c'), .why = "it stays apart"}},
          .rss_max_bytes = 100'000'000,
          .seconds_to_first_step = 0.3,
          .history = {
              {.seconds = 1, .samples = 640, .accuracy = 0.5, .loss = 1, .bytes_sent = 3},
              {.seconds = 2, .samples = 1280, .accuracy = accuracy, .loss = 0.5, .bytes_sent = 6}}};
}

}  // namespace

BOOST_AUTO_TEST_SUITE(summary)

BOOST_AUTO_TEST_CASE(a_peer_summary_has_every_key_that_others_rely_on) {
  const auto json = nlohmann::json::parse(to_json(peer("one", 0.875)));
  for (const char* key :
       {"name", "id", "run", "end", "accuracy", "loss", "perplexity", "bits_per_byte", "samples",
        "steps", "seconds", "bytes_sent", "bytes_received", "exchanges", "drift", "rss_max_bytes",
        "seconds_to_first_step", "history"}) {
    BOOST_TEST(json.contains(key), key << " is missing");
  }
  for (const char* purpose : {"total", "delta", "keyframe", "membership", "reduce", "other"}) {
    BOOST_TEST(json.at("bytes_sent").contains(purpose), purpose << " is missing");
  }
  BOOST_TEST(json.at("accuracy") == 0.875);
  BOOST_TEST(json.at("settled") == true);
  BOOST_TEST(json.at("left_out").at(0).at("why") == "it stays apart");
  BOOST_TEST(json.at("history").at(1).at("bytes_sent") == 6);
}

BOOST_AUTO_TEST_CASE(summaries_read_back_equal) {
  const starling::testing::TemporaryFolder folder;
  const PeerSummary one = peer("one", 0.875);
  BOOST_TEST(write_summary(folder.path() + "/one", one).has_value());
  const auto read_one = read_peer_summary(folder.path() + "/one");
  BOOST_REQUIRE(read_one);
  BOOST_TEST((*read_one == one));

  SwarmSummary swarm = summarize("fashion", {one, peer("two", 0.885)});
  swarm.distance = 0.003;
  BOOST_TEST(write_summary(folder.path(), swarm).has_value());
  const auto written = starling::base::read_file(folder.path() + "/summary.json", 1 << 20);
  BOOST_REQUIRE(written);
  const auto read_swarm =
      starling::testing::read_swarm_summary(std::string(starling::base::text_of(*written)));
  BOOST_REQUIRE(read_swarm);
  BOOST_TEST((*read_swarm == swarm));
}

BOOST_AUTO_TEST_CASE(the_quality_of_a_language_model_reads_back_and_has_a_mean) {
  PeerSummary one = peer("one", 0.5);
  PeerSummary two = peer("two", 0.5);
  BOOST_TEST(nlohmann::json::parse(to_json(one)).at("perplexity").is_null());
  one.language = {.perplexity = 4, .bits_per_byte = 2};
  two.language = {.perplexity = 8, .bits_per_byte = 3};
  BOOST_TEST((peer_summary_from_json(to_json(one)).value() == one));
  const SwarmSummary all = summarize("run", {one, two, peer("killed", 0)});
  BOOST_TEST((all.swarm.language == LanguageQuality{.perplexity = 6, .bits_per_byte = 2.5}));
}

BOOST_AUTO_TEST_CASE(what_is_unknown_or_not_finite_is_null_and_reads_back_as_nothing) {
  PeerSummary one = peer("one", 0.5);
  one.accuracy.reset();
  one.loss = std::numeric_limits<double>::infinity();
  const auto read = peer_summary_from_json(to_json(one));
  BOOST_REQUIRE(read);
  BOOST_TEST(!read->accuracy.has_value());
  BOOST_TEST(!read->loss.has_value());
}

BOOST_AUTO_TEST_CASE(an_accuracy_that_is_not_there_is_null_in_the_history_too) {
  PeerSummary one = peer("one", 0.5);
  for (HistoryPoint& point : one.history) point.accuracy.reset();
  const auto json = nlohmann::json::parse(to_json(one));
  BOOST_TEST(json.at("history").at(1).at("accuracy").is_null());
  BOOST_TEST((peer_summary_from_json(to_json(one)).value() == one));
  BOOST_TEST(!summarize("run", {one, one}).swarm.history.at(1).accuracy.has_value());
}

BOOST_AUTO_TEST_CASE(a_swarm_has_settled_if_all_have_and_names_each_that_is_left_out_once) {
  PeerSummary one = peer("one", 0.5);
  PeerSummary two = peer("two", 0.5);
  BOOST_TEST((summarize("run", {one, two}).swarm.settled == true));
  BOOST_TEST(summarize("run", {one, two}).swarm.left_out.size() == 1U);
  two.settled = false;
  two.left_out.push_back({.name = "gone", .id = std::string(64, 'd'), .why = "its link was lost"});
  BOOST_TEST((summarize("run", {one, two}).swarm.settled == false));
  BOOST_TEST(summarize("run", {one, two}).swarm.left_out.size() == 2U);
  one.settled.reset();
  one.left_out.clear();
  BOOST_TEST((peer_summary_from_json(to_json(one)).value() == one));
  BOOST_TEST(!summarize("run", {one}).swarm.settled.has_value());
}

BOOST_AUTO_TEST_CASE(a_swarm_has_totals_of_what_adds_up_and_means_of_the_rest) {
  PeerSummary killed = peer("killed", 0);
  killed.accuracy.reset();
  killed.end = "killed";
  const SwarmSummary all = summarize("run", {peer("one", 0.25), peer("two", 0.75), killed});
  BOOST_TEST(*all.swarm.accuracy == 0.5);
  BOOST_TEST(all.swarm.samples == 3U * 6400);
  BOOST_TEST(all.swarm.bytes_sent.total == 45U);
  BOOST_TEST(all.swarm.bytes_sent.reduce == 12U);
  BOOST_TEST(all.swarm.exchanges == 150U);
  BOOST_TEST(all.swarm.seconds == 12.5);
  BOOST_TEST(all.swarm.rss_max_bytes == 100'000'000U);
  BOOST_TEST(all.swarm.end == "mixed");
  BOOST_TEST(all.swarm.run == std::string(32, 'b'));
  BOOST_TEST(all.peers.size() == 3U);
}

BOOST_AUTO_TEST_CASE(a_peer_that_failed_counts_in_totals_alone) {
  for (const char* const end : {kEndFailed, kEndDiverged}) {
    PeerSummary failed = peer("failed", 0.1);
    failed.end = end;
    failed.loss = 2.0;
    failed.drift = 0.4;
    failed.history.pop_back();
    const SwarmSummary all = summarize("run", {failed, peer("one", 0.75), peer("two", 0.25)});
    BOOST_TEST(*all.swarm.accuracy == 0.5);
    BOOST_TEST(*all.swarm.loss == 0.5);
    BOOST_TEST(*all.swarm.drift == 0.004);
    BOOST_TEST(all.swarm.history.size() == 2U);
    BOOST_TEST(all.swarm.samples == 3U * 6400);
    BOOST_TEST(all.peers.size() == 3U);
  }
}

BOOST_AUTO_TEST_CASE(a_swarms_history_ends_where_the_shortest_one_does) {
  PeerSummary longer = peer("longer", 0.5);
  longer.history.push_back({.seconds = 3});
  const SwarmSummary all = summarize("run", {peer("one", 0.25), longer});
  BOOST_REQUIRE(all.swarm.history.size() == 2U);
  BOOST_TEST(all.swarm.history[1].accuracy.value() == 0.375);
  BOOST_TEST(all.swarm.history[1].samples == 2560U);
  BOOST_TEST(all.swarm.history[1].seconds == 2);
}

BOOST_AUTO_TEST_CASE(a_swarm_without_peers_has_a_summary) {
  const SwarmSummary none = summarize("run", {});
  BOOST_TEST(!none.swarm.accuracy.has_value());
  BOOST_TEST(peer_summary_from_json(to_json(none)).has_value());
}

BOOST_AUTO_TEST_CASE(a_damaged_summary_is_refused_with_the_place) {
  const std::string good = to_json(summarize("run", {peer("one", 0.5)}));
  BOOST_REQUIRE(peer_summary_from_json(good));
  BOOST_TEST(!peer_summary_from_json(good.substr(0, good.size() / 2)));
  BOOST_TEST(peer_summary_from_json("[]").error().text == "the summary is not an object");
  BOOST_TEST(peer_summary_from_json("{}").error().text == "name is missing");

  auto json = nlohmann::json::parse(good);
  json["bytes_sent"]["delta"] = -1;
  BOOST_TEST(peer_summary_from_json(json.dump()).error().text ==
             "bytes_sent.delta is not a whole number of 0 or more");
  json["history"] = {1};
  BOOST_TEST(!peer_summary_from_json(json.dump()));
  json["history"] = 3;
  BOOST_TEST(!peer_summary_from_json(json.dump()));
}

BOOST_AUTO_TEST_CASE(deep_nesting_and_long_arrays_are_refused) {
  BOOST_TEST(!peer_summary_from_json(std::string(1'000'000, '[')));
  auto json = nlohmann::json::parse(to_json(peer("one", 0.5)));
  json["history"] = std::vector<int>(kHistoryMax + 1);
  BOOST_TEST(peer_summary_from_json(json.dump()).error().text == "history is too long");
}

BOOST_AUTO_TEST_CASE(a_missing_file_is_an_error_that_names_it) {
  const starling::testing::TemporaryFolder folder;
  const auto read = read_peer_summary(folder.path());
  BOOST_REQUIRE(!read);
  BOOST_TEST(read.error().text.find(folder.path() + "/summary.json") == 0U);
}

BOOST_AUTO_TEST_SUITE_END()
