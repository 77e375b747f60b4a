#include "report/metrics.hpp"

#include <algorithm>

#include <boost/test/unit_test.hpp>

#include "tests/temporary_folder.hpp"

using namespace starling::report;

namespace {

const MetricsRow kRow{.seconds = 1.5,
                      .samples = 128,
                      .steps = 2,
                      .loss = 0.25,
                      .train_loss = 0.5,
                      .accuracy = 0.875,
                      .lr = 0.05,
                      .drift = 0.001,
                      .links = 3,
                      .bytes_sent = 1000,
                      .bytes_received = 2000,
                      .exchanges = 6};
constexpr const char* kLine = "1.500,128,2,0.25,0.5,0.875,0.05,0.001,3,1000,2000,6";

std::string with_header(const std::string& rows) {
  return std::string(kMetricsColumns) + "\n" + rows;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(metrics)

BOOST_AUTO_TEST_CASE(a_row_has_a_value_for_every_column) {
  BOOST_TEST(metrics_line(kRow) == kLine);
  BOOST_TEST(std::ranges::count(metrics_line(kRow), ',') ==
             std::ranges::count(kMetricsColumns, ','));
}

BOOST_AUTO_TEST_CASE(what_was_not_evaluated_is_empty) {
  MetricsRow row = kRow;
  row.loss.reset();
  row.accuracy.reset();
  BOOST_TEST(metrics_line(row) == "1.500,128,2,,0.5,,0.05,0.001,3,1000,2000,6");
}

BOOST_AUTO_TEST_CASE(rows_are_in_the_file_as_soon_as_they_are_appended) {
  const starling::testing::TemporaryFolder folder;
  auto file = MetricsFile::open(folder.path() + "/new");
  BOOST_REQUIRE(file);
  BOOST_TEST(folder.text("new/metrics.csv") == with_header(""));
  BOOST_TEST(file->append(kRow).has_value());
  BOOST_TEST(folder.text("new/metrics.csv") == with_header(std::string(kLine) + "\n"));
}

BOOST_AUTO_TEST_CASE(a_fresh_file_replaces_what_was_there) {
  const starling::testing::TemporaryFolder folder;
  for (int i = 0; i < 2; ++i) {
    BOOST_TEST(MetricsFile::open(folder.path())->append(kRow).has_value());
  }
  BOOST_TEST(folder.text("metrics.csv") == with_header(std::string(kLine) + "\n"));
}

BOOST_AUTO_TEST_CASE(counters_go_on_after_a_restart_and_what_was_lost_is_dropped) {
  const starling::testing::TemporaryFolder folder;
  MetricsRow lost = kRow;
  lost.samples = 192;
  lost.seconds = 2;
  lost.bytes_sent = 1500;
  {
    auto file = MetricsFile::open(folder.path());
    BOOST_TEST((file->append(kRow) && file->append(lost)));
  }
  MetricsRow next = kRow;
  next.samples = 160;
  BOOST_TEST(MetricsFile::open(folder.path(), 128)->append(next).has_value());
  BOOST_TEST(
      folder.text("metrics.csv") ==
      with_header(std::string(kLine) + "\n3.500,160,2,0.25,0.5,0.875,0.05,0.001,3,2500,4000,12\n"));
}

BOOST_AUTO_TEST_CASE(a_row_that_a_crash_cut_off_is_dropped) {
  const starling::testing::TemporaryFolder folder;
  const std::string line = std::string(kLine) + "\n";
  folder.write("metrics.csv", with_header(line + "2.500,25"));
  BOOST_TEST(MetricsFile::open(folder.path(), 128).has_value());
  BOOST_TEST(folder.text("metrics.csv") == with_header(line));
}

BOOST_AUTO_TEST_CASE(a_file_with_only_part_of_a_header_starts_anew) {
  const starling::testing::TemporaryFolder folder;
  folder.write("metrics.csv", "seconds,sam");
  BOOST_TEST(MetricsFile::open(folder.path(), 128).has_value());
  BOOST_TEST(folder.text("metrics.csv") == with_header(""));
}

BOOST_AUTO_TEST_CASE(a_file_with_other_columns_is_refused_and_left_alone) {
  const starling::testing::TemporaryFolder folder;
  folder.write("metrics.csv", "a,b\n1,2\n");
  const auto file = MetricsFile::open(folder.path(), 128);
  BOOST_REQUIRE(!file);
  BOOST_TEST(file.error().text.find("other columns") != std::string::npos);
  BOOST_TEST(folder.text("metrics.csv") == "a,b\n1,2\n");
}

BOOST_AUTO_TEST_CASE(a_long_run_thins_rows_but_keeps_every_evaluation) {
  const starling::testing::TemporaryFolder folder;
  auto file = MetricsFile::open(folder.path());
  BOOST_REQUIRE(file);
  MetricsRow plain;
  MetricsRow evaluated;
  evaluated.accuracy = 0.5;
  constexpr std::uint64_t kExtra = 1000;
  for (std::uint64_t i = 0; i < kMetricsRowsDense + kExtra; ++i) {
    BOOST_REQUIRE(file->append(plain).has_value());
  }
  for (std::uint64_t i = 0; i < kExtra; ++i) BOOST_REQUIRE(file->append(evaluated).has_value());
  const std::string text = folder.text("metrics.csv");
  BOOST_TEST(static_cast<std::uint64_t>(std::ranges::count(text, '\n')) ==
             1 + kMetricsRowsDense + kExtra / 2 + kExtra);
}

BOOST_AUTO_TEST_CASE(rows_of_former_lives_count_when_they_are_thinned) {
  const starling::testing::TemporaryFolder folder;
  const std::string plain = metrics_line({.samples = 1}) + "\n";
  std::string rows;
  for (std::uint64_t i = 0; i < kMetricsRowsDense; ++i) rows += plain;
  folder.write("metrics.csv", with_header(rows));
  auto file = MetricsFile::open(folder.path(), 1);
  BOOST_REQUIRE(file);
  for (int i = 0; i < 100; ++i) BOOST_REQUIRE(file->append({.samples = 2}).has_value());
  BOOST_TEST(static_cast<std::uint64_t>(std::ranges::count(folder.text("metrics.csv"), '\n')) ==
             1 + kMetricsRowsDense + 50);
}

BOOST_AUTO_TEST_CASE(rows_for_a_picture_are_those_of_the_file_while_they_are_few) {
  const starling::testing::TemporaryFolder folder;
  MetricsRow plain = kRow;
  plain.loss.reset();
  plain.accuracy.reset();
  {
    auto file = MetricsFile::open(folder.path());
    BOOST_REQUIRE(file);
    BOOST_TEST(file->thinned() == with_header(""));
    for (const MetricsRow& row : {plain, kRow, plain, kRow, plain}) {
      BOOST_TEST(file->append(row).has_value());
    }
    BOOST_TEST(file->thinned() == folder.text("metrics.csv"));
  }
  const auto again = MetricsFile::open(folder.path(), kRow.samples);
  BOOST_REQUIRE(again);
  BOOST_TEST(again->thinned() == folder.text("metrics.csv"));
}

BOOST_AUTO_TEST_CASE(rows_for_a_picture_are_bounded_and_those_with_an_evaluation_stay) {
  const starling::testing::TemporaryFolder folder;
  auto file = MetricsFile::open(folder.path());
  BOOST_REQUIRE(file);
  MetricsRow row = kRow;
  for (std::uint64_t i = 0; i < 20 * kMetricsRowsDrawn; ++i) {
    row.steps = i;
    row.loss = i % 100 == 0 ? std::optional(0.25) : std::nullopt;
    row.accuracy.reset();
    BOOST_REQUIRE(file->append(row).has_value());
  }
  const std::string text = file->thinned();
  const auto rows = static_cast<std::size_t>(std::ranges::count(text, '\n')) - 1;
  BOOST_TEST(rows <= 2 * (kMetricsRowsDrawn + 1));
  BOOST_TEST(text.find("," + std::to_string(row.steps) + ",") != std::string::npos);
  std::size_t evaluated = 0;
  for (std::size_t at = 0; (at = text.find(",0.25,0.5,", at)) != std::string::npos; ++at)
    ++evaluated;
  BOOST_TEST(evaluated == 20 * kMetricsRowsDrawn / 100 + 1);
}

BOOST_AUTO_TEST_SUITE_END()
