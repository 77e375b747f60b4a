#include "report/utf8.hpp"

#include <string>

#include <boost/test/unit_test.hpp>

using starling::report::Utf8Stream;

namespace {

const std::string kLost = "\uFFFD";

std::string shown(const std::string& bytes) {
  Utf8Stream stream;
  std::string text = stream.push(bytes);
  return text + stream.finish();
}

}  // namespace

BOOST_AUTO_TEST_SUITE(utf8)

BOOST_AUTO_TEST_CASE(text_comes_out_as_it_is_however_it_is_cut) {
  const std::string text = "In the beginning\n\tπ ≈ 3 \U0001F426 ø \U0010FFFF\u00A0";
  for (std::size_t size = 1; size <= text.size(); ++size) {
    Utf8Stream stream;
    std::string out;
    for (std::size_t at = 0; at < text.size(); at += size) {
      const std::string piece = stream.push(text.substr(at, size));
      BOOST_TEST(shown(piece) == piece);  // whole characters only
      out += piece;
    }
    BOOST_TEST(out == text);
    BOOST_TEST(stream.finish().empty());
  }
}

BOOST_AUTO_TEST_CASE(what_is_no_utf8_is_replaced_once_a_piece) {
  // Of the Unicode standard, table 3-8: truncated and ill-formed sequences.
  BOOST_TEST(shown("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41") ==
             kLost + kLost + kLost + kLost + kLost + kLost + kLost + kLost + "A");
  BOOST_TEST(shown("\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41") ==
             kLost + kLost + kLost + kLost + kLost + kLost + kLost + kLost + "A");
  BOOST_TEST(shown("\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42") ==
             kLost + kLost + kLost + kLost + kLost + "A" + kLost + kLost + "B");
  BOOST_TEST(shown("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41") == kLost + kLost + kLost + kLost + "A");
}

BOOST_AUTO_TEST_CASE(a_character_that_never_ends_is_replaced_at_the_end) {
  Utf8Stream stream;
  BOOST_TEST(stream.push("a\xF0\x9F\x90") == "a");
  BOOST_TEST(stream.finish() == kLost);
  BOOST_TEST(stream.finish().empty());
}

BOOST_AUTO_TEST_CASE(a_terminal_gets_no_control_characters) {
  BOOST_TEST(shown("a\x1b[2J\r\b\x7f") == "a" + kLost + "[2J" + kLost + kLost + kLost);
  BOOST_TEST(shown("\u009B2J") == kLost + "2J");
  BOOST_TEST(shown(std::string(1, '\0')) == kLost);
}

BOOST_AUTO_TEST_SUITE_END()
