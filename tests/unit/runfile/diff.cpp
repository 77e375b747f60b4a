// The differences between two runs if one of them did not fit into a refusal.
#include <string>

#include <boost/test/unit_test.hpp>
#include <fmt/core.h>

#include "runfile/run_file.hpp"
#include "wire/messages.hpp"

using namespace starling::runfile;
using starling::wire::kCanonicalMax;

namespace {

/// The canonical form of a model with many layers, longer than a refusal has room for; the last key
/// is "run.seed".
std::string long_form(int seed, int layer = 700, const std::string& kind = "relu") {
  std::string text;
  for (int i = 0; i < 1400; ++i) {
    text += fmt::format("model.layers[{:04}] = {}\n", i, i == layer ? kind : "relu");
  }
  BOOST_TEST_REQUIRE(text.size() > kCanonicalMax);
  return text + fmt::format("run.seed = {}\n", seed);
}

/// As it comes in a refusal.
std::string cut(const std::string& text) { return text.substr(0, kCanonicalMax); }

}  // namespace

BOOST_AUTO_TEST_SUITE(run_file_diff)

BOOST_AUTO_TEST_CASE(what_a_refusal_had_no_room_for_is_no_difference) {
  const std::string text = diff(long_form(1), cut(long_form(1, 300, "gelu")));
  BOOST_TEST(text.starts_with("model.layers[0300]: relu here, gelu there\nwhat comes behind "),
             text);
  BOOST_TEST(text.find("nothing there") == std::string::npos, text);
}

BOOST_AUTO_TEST_CASE(a_line_that_was_cut_in_two_is_not_compared) {
  // 26 characters a line: the text ends after 630 lines and 4 characters of the next.
  const std::string there = cut(long_form(1));
  BOOST_TEST_REQUIRE(there.ends_with("relu\nmode"));
  BOOST_TEST(diff(long_form(2), there) ==
             "what comes behind model.layers[0629] was cut off on its way\n");
}

BOOST_AUTO_TEST_CASE(a_text_without_a_whole_line_is_not_compared) {
  BOOST_TEST(diff("a = 1\n", std::string(kCanonicalMax, 'x')) ==
             "the rest was cut off on its way\n");
}

BOOST_AUTO_TEST_CASE(what_is_shorter_than_a_refusal_has_room_for_was_not_cut) {
  BOOST_TEST(diff("a = 1\nb = 2\n", "a = 1\n") == "b: 2 here, nothing there\n");
}

BOOST_AUTO_TEST_CASE(diff_with_a_stranger_stays_short_and_printable) {
  std::string there = "a = \x1b[2J\n";
  for (int i = 0; i < 1000; ++i)
    there += "k" + std::to_string(i) + " = " + std::string(5000, 'x') + "\n";
  const std::string text = diff("", there);
  BOOST_TEST(text.find('\x1b') == std::string::npos);
  BOOST_TEST(text.find("a: nothing here, ?[2J there\n") == 0U);
  BOOST_TEST(text.size() < (kDiffLinesMax + 1) * (2 * kDiffTextMax + 40));
  BOOST_TEST(text.ends_with("and more\n"));
}

BOOST_AUTO_TEST_SUITE_END()
