// The scripts as text; tests/integration/command_line.py runs the one for bash.
#include <boost/test/unit_test.hpp>

#include "command_table.hpp"
#include "table.hpp"

namespace starling::peers {
namespace {

BOOST_AUTO_TEST_SUITE(completion_for_bash)

BOOST_AUTO_TEST_CASE(each_command_offers_its_options) {
  const std::string script = bash_completion(small_table());
  BOOST_TEST(has(script, "'starling data' | 'starling data encode' | 'starling bench') command+="));
  BOOST_TEST(has(script, "_starling_offer -W '-h --help -n --peers'"));
  BOOST_TEST(has(script, "_starling_offer -W '-h --help --out'"));
}

BOOST_AUTO_TEST_CASE(what_stands_alone_is_a_command_a_choice_or_a_file) {
  const std::string script = bash_completion(small_table());
  BOOST_TEST(has(script, "else _starling_offer -W 'data bench'; fi"));
  BOOST_TEST(has(script, "else _starling_offer -W 'codec compute'; fi"));
  BOOST_TEST(has(script, "'-h --help --out'; else _starling_offer -f; fi"));
}

BOOST_AUTO_TEST_CASE(an_argument_is_offered_by_its_kind) {
  const std::string script = bash_completion(small_table());
  BOOST_TEST(has(script, "'starling data encode --out') _starling_offer -d; return"));
  BOOST_TEST(has(script, "'starling bench -n' | 'starling bench --peers') true; return"));
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(completion_for_zsh)

BOOST_AUTO_TEST_CASE(each_command_has_a_function_and_is_described) {
  const std::string script = zsh_completion(small_table());
  BOOST_TEST(script.starts_with("#compdef starling\n"));
  BOOST_TEST(has(script, "\n_starling_data_encode() {\n"));
  BOOST_TEST(has(script, "    'bench:Measure'\n"));
  BOOST_TEST(has(script, "        encode) _starling_data_encode ;;\n"));
}

BOOST_AUTO_TEST_CASE(options_name_their_arguments) {
  const std::string script = zsh_completion(small_table());
  BOOST_TEST(has(script, "'(-h --help)'{-h,--help}'[Print this help]'"));
  BOOST_TEST(has(script, "'(-n --peers)'{-n+,--peers=}'["));
  BOOST_TEST(has(script, "':WHAT:(codec compute)'"));
  BOOST_TEST(has(script, "'*:PATH:_files'"));
}

BOOST_AUTO_TEST_CASE(help_cannot_end_a_word_or_its_brackets) {
  const std::string script = zsh_completion(small_table());
  BOOST_TEST(has(script, "'--out=[It'\\''s new]:FOLDER:_files -/'"));
  BOOST_TEST(has(script, "[.5 is not a \\\\ number]"));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace starling::peers
