#include "report/log.hpp"

#include <limits>
#include <regex>
#include <sstream>

#include <boost/test/unit_test.hpp>
#include <nlohmann/json.hpp>

#include "tests/temporary_folder.hpp"

using namespace starling::report;

namespace {

constexpr LogOptions kFileOnly{.quiet = true};

std::vector<nlohmann::json> lines_of(const std::string& text) {
  std::vector<nlohmann::json> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(nlohmann::json::parse(line));
  return lines;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(event_log)

BOOST_AUTO_TEST_CASE(an_event_is_one_json_object_with_time_level_name_and_fields) {
  const starling::testing::TemporaryFolder folder;
  auto opened = Log::open(folder.path() + "/new", kFileOnly);
  BOOST_REQUIRE(opened);
  opened->event(
      Level::info, "link_opened",
      {{"peer", "3a5f01bc"}, {"links", std::uint64_t{3}}, {"drift", 0.5}, {"back", true}});
  opened->event(Level::error, "stopped");

  const auto lines = lines_of(folder.text("new/log.jsonl"));
  BOOST_REQUIRE(lines.size() == 2);
  const std::regex utc(R"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z)");
  BOOST_TEST(std::regex_match(lines[0].at("time").get<std::string>(), utc));
  BOOST_TEST(lines[0].at("level") == "info");
  BOOST_TEST(lines[0].at("event") == "link_opened");
  BOOST_TEST(lines[0].at("peer") == "3a5f01bc");
  BOOST_TEST(lines[0].at("links") == 3);
  BOOST_TEST(lines[0].at("drift") == 0.5);
  BOOST_TEST(lines[0].at("back") == true);
  BOOST_TEST(lines[1].at("level") == "error");
}

BOOST_AUTO_TEST_CASE(a_restarted_peer_adds_to_its_log) {
  const starling::testing::TemporaryFolder folder;
  for (int i = 0; i < 2; ++i) Log::open(folder.path(), kFileOnly)->event(Level::info, "started");
  BOOST_TEST(lines_of(folder.text("log.jsonl")).size() == 2U);
}

BOOST_AUTO_TEST_CASE(text_that_is_not_utf8_or_has_quotes_and_line_ends_stays_one_json_line) {
  const auto json =
      nlohmann::json::parse("{" + log_fields_json("refused", {{"name", "a\"\n\xff\x01"}}) + "}");
  BOOST_TEST(json.at("name").get<std::string>() == "a\"\n\xef\xbf\xbd\x01");
}

BOOST_AUTO_TEST_CASE(long_text_is_cut) {
  const std::string text(kLogTextBytesMax + 5, 'x');
  const auto json = nlohmann::json::parse("{" + log_fields_json("refused", {{"why", text}}) + "}");
  BOOST_TEST(json.at("why").get<std::string>().size() == kLogTextBytesMax);
}

BOOST_AUTO_TEST_CASE(a_number_that_is_not_finite_is_null) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto json = nlohmann::json::parse("{" + log_fields_json("lost", {{"loss", nan}}) + "}");
  BOOST_TEST(json.at("loss").is_null());
}

BOOST_AUTO_TEST_CASE(people_read_words_without_control_characters) {
  BOOST_TEST(log_text("link_lost", {{"peer", "3a5f\x1b"}, {"after_seconds", 1.5}}) ==
             "link lost (peer 3a5f?, after seconds 1.5)");
  BOOST_TEST(log_text("left", {}) == "left");
}

BOOST_AUTO_TEST_CASE(people_read_a_text_that_is_all_of_an_event_alone) {
  BOOST_TEST(log_text("note", {{"text", "dialing 127.0.0.1:9 failed\n"}}) ==
             "dialing 127.0.0.1:9 failed?");
  BOOST_TEST(log_text("lost", {{"text", "a"}, {"links", std::uint64_t{1}}}) ==
             "lost (text a, links 1)");
}

BOOST_AUTO_TEST_CASE(the_log_rotates_and_its_files_are_bounded) {
  const starling::testing::TemporaryFolder folder;
  auto opened = Log::open(folder.path(), kFileOnly);
  BOOST_REQUIRE(opened);
  const std::string text(kLogTextBytesMax, 'x');
  const std::size_t enough = (kLogFilesOldMax + 2) * kLogFileBytesMax / kLogTextBytesMax;
  for (std::size_t i = 0; i < enough; ++i) opened->event(Level::info, "much", {{"text", text}});
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    ++files;
    BOOST_TEST(entry.file_size() <= kLogFileBytesMax);
  }
  BOOST_TEST(files == kLogFilesOldMax + 1);
  BOOST_TEST(std::filesystem::exists(folder.path() + "/log.1.jsonl"));
}

BOOST_AUTO_TEST_CASE(a_log_that_could_not_rotate_goes_on_where_it_can_be_written_again) {
  const starling::testing::TemporaryFolder folder;
  const std::string dir = folder.path() + "/peer";
  auto opened = Log::open(dir, kFileOnly);
  BOOST_REQUIRE(opened);
  std::filesystem::remove_all(dir);
  folder.write("peer", "a file in the place of the folder");
  const std::string text(kLogTextBytesMax, 'x');
  for (std::size_t i = 0; i < kLogFileBytesMax / kLogTextBytesMax; ++i) {
    opened->event(Level::info, "much", {{"text", text}});
  }
  for (int i = 0; i < 3; ++i) opened->event(Level::info, "lost");
  std::filesystem::remove(dir);
  for (std::uint32_t i = 0; i < kLogEventsMissed; ++i) opened->event(Level::info, "again");
  BOOST_TEST(std::filesystem::exists(dir + "/log.jsonl"));
}

BOOST_AUTO_TEST_CASE(a_folder_that_cannot_be_made_is_an_error_that_names_it) {
  const starling::testing::TemporaryFolder folder;
  folder.write("file", "");
  const auto opened = Log::open(folder.path() + "/file/log", kFileOnly);
  BOOST_REQUIRE(!opened);
  BOOST_TEST(opened.error().text.find(folder.path() + "/file/log") == 0U);
}

BOOST_AUTO_TEST_SUITE_END()
