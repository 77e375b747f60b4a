#include <boost/test/unit_test.hpp>

#include "command_table.hpp"
#include "table.hpp"

namespace starling::peers {
namespace {

BOOST_AUTO_TEST_SUITE(the_manual_page)

BOOST_AUTO_TEST_CASE(every_command_is_shown_as_it_is_typed) {
  const std::string page = manual_page(small_table(), "1.2.3");
  BOOST_TEST(has(page, ".TH STARLING 1 \"\" \"starling 1.2.3\""));
  BOOST_TEST(has(page, "starling \\- peers that train\n"));
  BOOST_TEST(has(page, ".SS \\fBbench\\fR [\\fIoptions\\fR] \\fIwhat\\fR\nMeasure.\n"));
  BOOST_TEST(has(page, ".SS \\fBdata\\fR \\fIcommand\\fR [\\fIoptions\\fR]\n"));
  BOOST_TEST(has(page, ".SS \\fBdata encode\\fR [\\fIoptions\\fR] \\fItexts\\fR ...\n"));
}

BOOST_AUTO_TEST_CASE(options_are_told_with_argument_range_and_default) {
  const std::string page = manual_page(small_table(), "1");
  BOOST_TEST(has(page, ".TP\n\\fB\\-n\\fR, \\fB\\-\\-peers\\fR \\fIN\\fR\n"));
  BOOST_TEST(has(page, " (1 to 64) (default: 4)\n"));
  BOOST_TEST(has(page, ".TP\n\\fB\\-\\-out\\fR \\fIFOLDER\\fR\nIt's new (required)\n"));
}

BOOST_AUTO_TEST_CASE(text_is_never_taken_for_a_command_of_roff) {
  BOOST_TEST(has(manual_page(small_table(), "1"), "\n\\&.5 is \\fBnot\\fR a \\e number"));
}

BOOST_AUTO_TEST_CASE(help_is_said_once_for_all_commands) {
  const std::string page = manual_page(small_table(), "1");
  const std::string entry = "\\fB\\-h\\fR, \\fB\\-\\-help\\fR\n";
  BOOST_TEST(has(page, entry));
  BOOST_TEST(page.find(entry) == page.rfind(entry));
  BOOST_TEST(has(page, "Each command has \\fB\\-\\-help\\fR"));
}

BOOST_AUTO_TEST_CASE(exit_codes_are_told) {
  BOOST_TEST(has(manual_page(small_table(), "1"), ".SH EXIT STATUS\n.TP\n.B 0\n"));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace starling::peers
