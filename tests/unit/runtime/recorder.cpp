#include "runtime/recorder.hpp"

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <boost/test/unit_test.hpp>

#include "tests/temporary_folder.hpp"

namespace starling::runtime {
namespace {

using std::chrono::seconds;

/// A peer that was started at second 1, has trained since second 3, and logs elsewhere than it
/// records.
struct Recorded {
  Recorded() {
    status.training_since = base::Time(seconds(3));
    status.first_step = base::Time(seconds(4));
    status.loss = 0.5;
    status.accuracy = 0.75;
  }

  [[nodiscard]] std::string dir() const { return folder / "peer"; }

  [[nodiscard]] Recorder open() {
    std::filesystem::create_directory(dir());
    auto opened = Recorder::open(
        {.dir = dir(), .name = "own", .id = {}, .run = {}, .started = base::Time(seconds(1))},
        nullptr, log);
    BOOST_TEST_REQUIRE(opened.has_value());
    return std::move(*opened);
  }

  [[nodiscard]] std::size_t told(std::string_view event) const {
    const std::string text = folder.text("log.jsonl");
    std::size_t count = 0;
    for (std::size_t at = text.find(event); at != std::string::npos;
         at = text.find(event, at + 1)) {
      ++count;
    }
    return count;
  }

  testing::TemporaryFolder folder;
  report::Log log = *report::Log::open(folder.path(), {.quiet = true});
  peer::Status status;
};

BOOST_AUTO_TEST_SUITE(recorder)

BOOST_AUTO_TEST_CASE(an_evaluation_stands_in_one_row_and_in_the_history) {
  Recorded recorded;
  Recorder recorder = recorded.open();
  io::LinkTraffic traffic;
  traffic.sent[static_cast<std::size_t>(wire::Purpose::delta)] = 700;
  recorder.add(recorded.status, true, traffic, base::Time(seconds(5)));
  recorder.add(recorded.status, false, traffic, base::Time(seconds(6)));
  BOOST_TEST(recorder.thinned().find("\n2.000,0,0,0.5,,0.75,") != std::string::npos);
  BOOST_TEST(recorder.thinned().find("\n3.000,0,0,,,,") != std::string::npos);

  recorded.status.whole_test_set = true;
  recorded.status.last_step = base::Time(seconds(8));
  const report::PeerSummary summary =
      recorder.finish({.error = {}, .status = recorded.status, .traffic = traffic});
  BOOST_TEST((summary == report::read_peer_summary(recorded.dir())));
  BOOST_TEST(summary.end == "done");
  BOOST_TEST((summary.loss == 0.5 && summary.accuracy == 0.75));
  BOOST_TEST((summary.bytes_sent == report::BytesByPurpose{.total = 700, .delta = 700}));
  BOOST_TEST(summary.seconds == 5);
  BOOST_TEST((summary.seconds_to_first_step == 3.0));
  const report::HistoryPoint point{.seconds = 2, .accuracy = 0.75, .loss = 0.5, .bytes_sent = 700};
  BOOST_TEST((summary.history == std::vector{point}));
}

BOOST_AUTO_TEST_CASE(a_history_that_grows_long_is_thinned_and_reaches_the_end) {
  Recorded recorded;
  Recorder recorder = recorded.open();
  for (std::size_t k = 1; k <= report::kHistoryMax + 100; ++k) {
    recorded.status.samples = k;
    recorder.add(recorded.status, true, {}, base::Time(seconds(3 + k)));
  }
  const report::PeerSummary summary =
      recorder.finish({.error = {}, .status = recorded.status, .traffic = {}});
  BOOST_TEST(summary.history.size() <= report::kHistoryMax);
  BOOST_TEST(summary.history.size() >= report::kHistoryMax / 2);
  BOOST_TEST(summary.history.front().samples == 1U);
  BOOST_TEST(summary.history.back().samples == report::kHistoryMax + 100);
  BOOST_TEST((summary == report::read_peer_summary(recorded.dir())));
}

BOOST_AUTO_TEST_CASE(a_part_of_the_test_set_is_no_final_result) {
  Recorded recorded;
  const report::PeerSummary summary = recorded.open().finish(
      {.reason = peer::EndReason::left, .error = {}, .status = recorded.status, .traffic = {}});
  BOOST_TEST(summary.end == "left");
  BOOST_TEST((!summary.loss && !summary.accuracy));
}

BOOST_AUTO_TEST_CASE(a_folder_that_is_gone_is_told_once) {
  Recorded recorded;
  Recorder recorder = recorded.open();
  const auto add = [&] { recorder.add(recorded.status, true, {}, base::Time(seconds(5))); };
  add();
  BOOST_TEST(recorded.told("metrics_not_written") == 0U);
  std::filesystem::remove_all(recorded.dir());
  add();
  add();
  BOOST_TEST(recorded.told("metrics_not_written") == 1U);
  std::filesystem::create_directory(recorded.dir());
  add();
  std::filesystem::remove_all(recorded.dir());
  add();
  BOOST_TEST(recorded.told("metrics_not_written") == 2U);
}

BOOST_AUTO_TEST_CASE(why_a_peer_failed_is_told_where_no_summary_can_be_written) {
  Recorded recorded;
  Recorder recorder = recorded.open();
  std::filesystem::remove_all(recorded.dir());
  recorded.folder.write("peer", "a file in its place");
  recorder.finish({.reason = peer::EndReason::failed,
                   .error = {base::ErrorCode::device, "it broke"},
                   .status = {},
                   .traffic = {}});
  BOOST_TEST(recorded.told("summary_not_written") == 1U);
  BOOST_TEST(recorded.told("it broke") == 1U);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace starling::runtime
