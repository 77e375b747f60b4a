#include "io/mapping_reports.hpp"

#include <string>
#include <string_view>

#include <boost/test/unit_test.hpp>

using namespace starling;
using namespace std::chrono_literals;
using io::MappingReports;
using io::router::read_line;
using io::router::write_line;

namespace {

constexpr base::Time kStart{1000s};

base::Status take(MappingReports& reports, std::string_view text, base::Time now = kStart) {
  return reports.take(base::bytes_of(text.data(), text.size()), now);
}

std::string addresses(const MappingReports& reports) {
  std::string text;
  for (const std::string& address : reports.addresses()) text += address + " ";
  return text;
}

std::string notes(MappingReports& reports) {
  std::string text;
  for (const std::string& note : reports.take_notes()) text += note + "\n";
  return text;
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(mapping_reports)

BOOST_AUTO_TEST_CASE(lines_come_back_as_they_were) {
  for (const char* text : {"mapped pcp 203.0.113.5:7000 1200", "mapped nat-pmp 203.0.113.5:1 30",
                           "mapped upnp [2001:db8::1]:65535 604800", "none ipv4 no router",
                           "none ipv6 a reason of words: 1; 2"}) {
    const auto line = read_line(text);
    BOOST_REQUIRE_MESSAGE(line.has_value(), text << ": " << (line ? "" : line.error().text));
    BOOST_TEST(write_line(*line) == text);
  }
  // The process cuts texts from others before it passes them on.
  const std::string cut =
      write_line(io::router::Unmapped{true, std::string(1000, 'x') + "\nmapped"});
  BOOST_TEST(cut.size() <= io::router::kLineMax);
  BOOST_TEST(read_line(cut).has_value());
}

BOOST_AUTO_TEST_CASE(hostile_lines_are_refused) {
  const std::string long_line = "none ipv4 " + std::string(io::router::kLineMax, 'x');
  for (const std::string text : {"",
                                 " ",
                                 "mapped",
                                 "mapped pcp",
                                 "mapped pcp 203.0.113.5:7000",
                                 "mapped PCP 1.2.3.4:1 60",
                                 "mapped pcp 203.0.113.5 1200",
                                 "mapped pcp 203.0.113.5:0 1200",
                                 "mapped pcp 203.0.113.5:70000 1200",
                                 "mapped pcp 203.0.113.500:7000 1200",
                                 "mapped pcp [203.0.113.5]:7000 1200",
                                 "mapped pcp 2001:db8::1:7000 1200",
                                 "mapped pcp [2001:db8::1%eth0]:7000 1200",
                                 "mapped pcp [::ffff:1.2.3.4]:7000 1200",
                                 "mapped pcp router.example:7000 1200",
                                 "mapped pcp 0.0.0.0:7000 1200",
                                 "mapped pcp [::]:7000 1200",
                                 "mapped pcp 203.0.113.5:7000 -5",
                                 "mapped pcp 203.0.113.5:7000 29",
                                 "mapped pcp 203.0.113.5:7000 604801",
                                 "mapped pcp 203.0.113.5:7000 1200 ",
                                 "mapped pcp 203.0.113.5:7000 1e9",
                                 "mapped  pcp 203.0.113.5:7000 1200",
                                 "none",
                                 "none ipv4",
                                 "none ipv5 x",
                                 "none ipv4 ",
                                 "gone",
                                 "\x1b[2J",
                                 long_line.c_str()}) {
    BOOST_TEST(!read_line(text).has_value(), text);
  }
  const auto shown = read_line("none ipv4 \x1b[31mred\x07");
  BOOST_REQUIRE(shown.has_value());
  BOOST_TEST(std::get<io::router::Unmapped>(*shown).why == "?[31mred?");
}

BOOST_AUTO_TEST_CASE(a_mapping_is_told_renewed_and_gone) {
  MappingReports reports;
  BOOST_TEST(take(reports, "mapped pcp 203.0.113.5:7000 1200\n").has_value());
  BOOST_TEST(addresses(reports) == "203.0.113.5:7000 ");
  BOOST_TEST(notes(reports) == "the router lets others in at 203.0.113.5:7000 (by PCP)\n");
  BOOST_TEST(take(reports, "mapped pcp 203.0.113.5:7000 1200\n").has_value());
  BOOST_TEST(notes(reports) == "");
  BOOST_TEST(take(reports, "mapped pcp [2001:db8::5]:7000 1200\n").has_value());
  BOOST_TEST(addresses(reports) == "203.0.113.5:7000 [2001:db8::5]:7000 ");
  notes(reports);
  BOOST_TEST(reports.said() ==
             "the router lets others in at 203.0.113.5:7000 (by PCP); the router lets others in at "
             "[2001:db8::5]:7000 (by PCP)");
  BOOST_TEST(take(reports, "none ipv4 PCP: no answer\n").has_value());
  BOOST_TEST(addresses(reports) == "[2001:db8::5]:7000 ");
  BOOST_TEST(notes(reports) ==
             "the router maps this peer's port no more for IPv4: PCP: no answer\n");
}

BOOST_AUTO_TEST_CASE(lines_may_come_in_any_pieces) {
  const std::string text = "mapped pcp 203.0.113.5:7000 1200\nnone ipv6 no router\n";
  for (std::size_t cut = 0; cut <= text.size(); ++cut) {
    MappingReports reports;
    BOOST_TEST(take(reports, text.substr(0, cut)).has_value());
    BOOST_TEST(take(reports, text.substr(cut)).has_value());
    BOOST_TEST(addresses(reports) == "203.0.113.5:7000 ");
    BOOST_TEST(has(notes(reports), "for IPv6: no router"));
  }
}

BOOST_AUTO_TEST_CASE(an_outer_address_that_is_none_is_said_and_not_told) {
  for (const char* outer : {"192.168.0.1:22", "10.0.0.1:7000", "100.64.0.1:7000", "127.0.0.1:631",
                            "169.254.1.1:80", "224.0.0.1:7000", "255.255.255.255:7000",
                            "[fe80::1]:7000", "[fd00::1]:7000", "[::1]:7000", "[ff02::1]:7000"}) {
    MappingReports reports;
    BOOST_TEST(take(reports, "mapped upnp " + std::string(outer) + " 1200\n").has_value());
    BOOST_TEST(addresses(reports) == "", outer);
    BOOST_TEST_REQUIRE(reports.mapped().size() == 1U, outer);
    BOOST_TEST(to_string(reports.mapped().front()) == outer);
    BOOST_TEST(has(notes(reports), "not an address of the internet"), outer);
  }
}

BOOST_AUTO_TEST_CASE(what_is_not_renewed_ends) {
  MappingReports reports;
  BOOST_TEST(take(reports, "mapped pcp 203.0.113.5:7000 60\n").has_value());
  const base::Time end = kStart + 60s + io::kMappingSlack;
  BOOST_TEST((reports.next_deadline() == end));
  // Even where the process that should do it is another one by now.
  reports.start_over();
  reports.expire(end - 1ns);
  BOOST_TEST(addresses(reports) == "203.0.113.5:7000 ");
  reports.expire(end);
  BOOST_TEST(addresses(reports) == "");
  BOOST_TEST(has(notes(reports), "without a renewal"));
  BOOST_TEST(!reports.next_deadline().has_value());
}

BOOST_AUTO_TEST_CASE(who_says_too_much_is_to_be_ended) {
  MappingReports flood;
  std::size_t taken = 0;
  while (take(flood, "none ipv4 x\n").has_value()) ++taken;
  BOOST_TEST(taken == io::kReportsPerMinute);
  // A line a second is too much, one every ten seconds is not.
  MappingReports steady;
  for (int i = 0; i < 100; ++i) {
    BOOST_TEST(take(steady, "none ipv4 x\n", kStart + i * 10s).has_value());
  }
  MappingReports endless;
  const std::string piece(64, 'x');
  taken = 0;
  while (take(endless, piece).has_value()) ++taken;
  BOOST_TEST(taken * piece.size() <= io::router::kLineMax);
  MappingReports garbage;
  const auto status = take(garbage, "mapped pcp 203.0.113.5:7000 60\nhello\n");
  BOOST_REQUIRE(!status.has_value());
  BOOST_TEST(status.error().text == "it says: an unknown word");
  BOOST_TEST(addresses(garbage) == "203.0.113.5:7000 ");
}

BOOST_AUTO_TEST_CASE(half_a_line_of_one_process_is_not_continued_by_the_next) {
  MappingReports reports;
  BOOST_TEST(take(reports, "mapped pcp 203.0.1").has_value());
  reports.start_over();
  BOOST_TEST(take(reports, "none ipv4 x\n").has_value());
}

BOOST_AUTO_TEST_SUITE_END()
