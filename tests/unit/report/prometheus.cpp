#include "report/prometheus.hpp"

#include <chrono>
#include <limits>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>

#include <boost/test/unit_test.hpp>

using namespace starling::report;
namespace base = starling::base;
namespace wire = starling::wire;
using starling::peer::Phase;
using starling::peer::Status;

namespace {

Status status() {
  Status made{
      .name = "a\"b\\c\nd", .phase = Phase::training, .steps = 7, .samples = 448, .progress = 0.25};
  made.links.push_back({.link = base::LinkId{1},
                        .name = "other",
                        .state = "open",
                        .exchange = 3,
                        .exchanges = 8,
                        .trust = starling::exchange::Trust::doubted,
                        .worse = 1.5,
                        .round_trip = std::chrono::milliseconds(25)});
  made.links.push_back({.link = base::LinkId{2}, .name = "third", .state = "open"});
  made.reopenings = 2;
  made.mismatches = 1;
  made.lost_steps = 4;
  made.members.resize(3);
  made.members[2].record.state = wire::MemberState::dead;
  return made;
}

StatusExtra extra() {
  const BytesByPurpose sent{.total = 60, .delta = 50, .membership = 10};
  return {.run = "test",
          .bytes_sent = sent,
          .link_sent = {sent, {}},
          .link_received = {{}, {}},
          .link_carrier = {{"tcp", ""}, {"ucx", ""}}};
}

/// Samples by name and labels. Every line must be one of the format's, and a family stands in one
/// piece, below its HELP and TYPE.
std::map<std::string, double> samples_of(const std::string& text) {
  const std::string label = R"re([a-z_]+="(?:[^"\\]|\\["\\n])*")re";
  const std::regex sample("([a-z_]+)(\\{" + label + "(?:," + label + ")*\\})? (\\S+)");
  std::map<std::string, double> samples;
  std::set<std::string> families;
  std::istringstream lines(text);
  std::string family;
  for (std::string line; std::getline(lines, line);) {
    std::smatch part;
    if (std::regex_match(line, part, std::regex("# HELP ([a-z_]+) \\S.*"))) {
      family = part[1];
      BOOST_TEST(families.insert(family).second, "twice: " << family);
    } else if (std::regex_match(line, part, std::regex("# TYPE ([a-z_]+) (counter|gauge)"))) {
      BOOST_TEST(part[1] == family);
      BOOST_TEST(family.ends_with("_total") == (part[2] == "counter"), family);
    } else {
      BOOST_REQUIRE_MESSAGE(std::regex_match(line, part, sample), line);
      BOOST_TEST(part[1] == family);
      BOOST_TEST(samples.emplace(part[1].str() + part[2].str(), std::stod(part[3])).second, line);
    }
  }
  return samples;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(prometheus)

BOOST_AUTO_TEST_CASE(figures_have_their_values) {
  auto samples = samples_of(prometheus_text(status(), extra()));
  BOOST_TEST(samples.at("starling_steps_total") == 7);
  BOOST_TEST(samples.at("starling_progress_ratio") == 0.25);
  BOOST_TEST(samples.at("starling_links") == 2);
  BOOST_TEST(samples.at("starling_reopenings_total") == 2);
  BOOST_TEST(samples.at("starling_mismatches_total") == 1);
  BOOST_TEST(samples.at("starling_lost_steps_total") == 4);
  BOOST_TEST(samples.at("starling_members{state=\"alive\"}") == 2);
  BOOST_TEST(samples.at("starling_members{state=\"dead\"}") == 1);
  BOOST_TEST(samples.at("starling_members{state=\"left\"}") == 0);
  BOOST_TEST(samples.at("starling_sent_bytes_total{purpose=\"delta\"}") == 50);
  BOOST_TEST(samples.at("starling_sent_bytes_total{purpose=\"keyframe\"}") == 0);
  const std::string link = "{peer=\"" + base::PeerId{}.hex() + "\",name=\"other\"}";
  BOOST_TEST(samples.at("starling_link_exchanges_total" + link) == 8);
  BOOST_TEST(samples.at("starling_link_loss_ratio" + link) == 1.5);
  BOOST_TEST(samples.at("starling_link_trust" + link.substr(0, link.size() - 1) +
                        ",trust=\"doubted\"}") == 1);
  BOOST_TEST(samples.at("starling_link_round_trip_seconds" + link) == 0.025);
  BOOST_TEST(samples.at("starling_link_sent_bytes_total" + link) == 60);
}

BOOST_AUTO_TEST_CASE(what_is_not_known_is_left_out) {
  Status known = status();
  auto samples = samples_of(prometheus_text(known, extra()));
  BOOST_TEST(!samples.contains("starling_test_loss"));
  BOOST_TEST(!samples.contains("starling_test_accuracy_ratio"));
  known.loss = 0.5;
  known.accuracy = 0.875;
  known.train_loss = std::numeric_limits<double>::infinity();
  samples = samples_of(prometheus_text(known, extra()));
  BOOST_TEST(samples.at("starling_test_loss") == 0.5);
  BOOST_TEST(samples.at("starling_test_accuracy_ratio") == 0.875);
  BOOST_TEST(!samples.contains("starling_train_loss"));
}

BOOST_AUTO_TEST_CASE(names_cannot_forge_lines) {
  const std::string text = prometheus_text(status(), extra());
  samples_of(text);
  BOOST_TEST(text.find("name=\"a\\\"b\\\\c?d\"") != std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()
