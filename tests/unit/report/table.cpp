#include "report/table.hpp"

#include <sstream>

#include <boost/test/unit_test.hpp>

using namespace starling::report;
using starling::base::Time;

namespace {

SwarmSnapshot two_peers() {
  return {.run = "fashion-mnist",
          .seconds = 62,
          .peers = {{.name = "p0",
                     .state = "training",
                     .progress = 0.5,
                     .steps = 1234,
                     .samples_per_second = 900,
                     .loss = 0.5,
                     .accuracy = 0.875,
                     .drift = 0.01,
                     .links = 1,
                     .bytes_sent = 1'000'000,
                     .eta_seconds = 61},
                    {.name = "p1",
                     .state = "training",
                     .progress = 0.52,
                     .steps = 1000,
                     .samples_per_second = 800,
                     .loss = 0.7,
                     .links = 1,
                     .bytes_sent = 500'000,
                     .eta_seconds = 58.25}}};
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

/// A printer's output, from its own file.
class Recorder {
 public:
  Recorder() : file_(std::tmpfile()) { BOOST_REQUIRE(file_ != nullptr); }
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;
  ~Recorder() { std::fclose(file_); }
  [[nodiscard]] std::FILE* stream() const { return file_; }
  [[nodiscard]] std::string text() const {
    std::string all(static_cast<std::size_t>(std::ftell(file_)), '\0');
    std::rewind(file_);
    BOOST_REQUIRE(std::fread(all.data(), 1, all.size(), file_) == all.size());
    return all;
  }

 private:
  std::FILE* file_;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(table)

BOOST_AUTO_TEST_CASE(a_table_has_a_row_a_peer_and_one_for_the_swarm) {
  const auto lines = lines_of(table_text(two_peers(), {.columns = 200, .lines = 24}));
  BOOST_REQUIRE(lines.size() == 5U);
  BOOST_TEST(lines[0] == "fashion-mnist: 2 peers, 1 min 02 s");
  BOOST_TEST(
      lines[1] ==
      "peer  state       progress    steps samples/s train loss accuracy   drift links      sent"
      "          ETA");
  BOOST_TEST(
      lines[2] ==
      "p0    training       50.0%    1,234       900      0.500   87.50%   1.00%     1   1.00 MB"
      "   1 min 01 s");
  BOOST_TEST(
      lines[3] ==
      "p1    training       52.0%    1,000       800      0.700        -       -     1    500 kB"
      "       58.2 s");
  BOOST_TEST(
      lines[4] ==
      "swarm                52.0%    2,234      1700      0.600   87.50%   1.00%     1   1.50 MB"
      "       58.2 s");
}

BOOST_AUTO_TEST_CASE(a_table_of_language_models_has_columns_for_their_quality) {
  SwarmSnapshot snapshot = two_peers();
  snapshot.peers[0].language = {.perplexity = 12.345, .bits_per_byte = 1.9876};
  const auto lines = lines_of(table_text(snapshot, {.columns = 200, .lines = 24}));
  BOOST_REQUIRE(lines.size() == 5U);
  BOOST_TEST(
      lines[1] ==
      "peer  state       progress    steps samples/s train loss accuracy perplexity bits/byte"
      "   drift links      sent          ETA");
  BOOST_TEST(
      lines[2] ==
      "p0    training       50.0%    1,234       900      0.500   87.50%      12.35     1.988"
      "   1.00%     1   1.00 MB   1 min 01 s");
  BOOST_TEST(lines[3].substr(64, 25) == "-          -         -   ");
  BOOST_TEST(lines[4].find("12.35     1.988") != std::string::npos);
  BOOST_TEST(plain_line(snapshot).find("  perplexity 12.35  1.988 bits/byte") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(no_line_is_wider_and_no_table_higher_than_the_terminal) {
  SwarmSnapshot many = two_peers();
  while (many.peers.size() < 50) many.peers.push_back(many.peers.front());
  const auto lines = lines_of(table_text(many, {.columns = 40, .lines = 10}));
  BOOST_TEST(lines.size() == 10U);
  BOOST_TEST(lines[8] == "... and 44 more");
  for (const std::string& line : lines) BOOST_TEST(line.size() <= 40U);
}

BOOST_AUTO_TEST_CASE(a_narrow_terminal_shows_fewer_columns_and_each_of_them_whole) {
  const auto header = [](std::size_t columns) {
    return lines_of(table_text(two_peers(), {.columns = columns, .lines = 24})).at(1);
  };
  BOOST_TEST(header(79) ==
             "peer  state       progress train loss accuracy   drift      sent          ETA");
  BOOST_TEST(header(60) == "peer  state       progress train loss accuracy   drift");
  BOOST_TEST(header(20) == "peer  state");
}

BOOST_AUTO_TEST_CASE(peers_that_just_fit_are_all_shown) {
  const auto lines = lines_of(table_text(two_peers(), {.columns = 100, .lines = 5}));
  BOOST_TEST(lines.size() == 5U);
  BOOST_TEST(lines[3].substr(0, 2) == "p1");
}

BOOST_AUTO_TEST_CASE(names_of_others_neither_break_the_table_nor_the_terminal) {
  SwarmSnapshot odd = two_peers();
  odd.peers[0].name = std::string(300, 'x').append("\x1b[2J");
  odd.peers[1].name = "a\nb\x1b";
  const auto lines = lines_of(table_text(odd, {}));
  BOOST_TEST(lines.size() == 5U);
  BOOST_TEST(lines[2].substr(0, 18) == "xxxxxxxxxxxxx... t");
  BOOST_TEST(lines[3].substr(0, 5) == "a?b? ");
}

BOOST_AUTO_TEST_CASE(a_plain_line_leaves_out_what_is_unknown) {
  BOOST_TEST(plain_line(two_peers()) ==
             "1 min 02 s  2 peers  52.0%  2,234 steps  1700 samples/s  training loss 0.600  "
             "accuracy 87.50%"
             "  drift 1.00%  1 link  1.50 MB sent  ETA 58.2 s\n");
  BOOST_TEST(plain_line({.run = "x"}) ==
             "0.0 s  0 peers  0.0%  0 steps  0 samples/s  0 links  0 B sent\n");
}

BOOST_AUTO_TEST_CASE(a_pipe_gets_plain_lines_at_intervals_and_the_table_at_the_end) {
  const Recorder recorder;
  TablePrinter printer(recorder.stream(), false);
  const Time start{};
  printer.show(two_peers(), start);
  printer.show(two_peers(), start + kPlainInterval / 2);
  printer.show(two_peers(), start + kPlainInterval);
  printer.finish(two_peers());
  const std::string text = recorder.text();
  BOOST_TEST(text.find('\x1b') == std::string::npos);
  BOOST_TEST(lines_of(text).size() == 2U + 5U);
}

BOOST_AUTO_TEST_CASE(a_terminal_is_redrawn_in_place) {
  const Recorder recorder;
  TablePrinter printer(recorder.stream(), true);
  printer.show(two_peers(), Time{});
  printer.show(two_peers(), Time{} + kTableInterval);
  printer.finish(two_peers());
  const std::string table = table_text(two_peers(), {});
  const std::string up = "\x1b[5A\r\x1b[J";
  BOOST_TEST(recorder.text() == table + up + table + up + table);
}

BOOST_AUTO_TEST_SUITE_END()
