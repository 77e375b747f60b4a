#include "reach/network.hpp"

#include <boost/test/unit_test.hpp>

using starling::reach::host_port;
using starling::reach::meeting_places;
using starling::reach::network_of;

BOOST_AUTO_TEST_SUITE(network)

BOOST_AUTO_TEST_CASE(addresses_are_a_host_and_a_port) {
  BOOST_TEST(host_port("1.2.3.4:7")->host == "1.2.3.4");
  BOOST_TEST(host_port("[fd00::1]:7000")->host == "fd00::1");
  BOOST_TEST(host_port("name.example:65535")->port == 65535);
  for (const char* bad : {"", ":", "host", "host:", ":7", "host:0", "host:65536", "host:7x"}) {
    BOOST_TEST(!host_port(bad).has_value(), bad);
  }
}

BOOST_AUTO_TEST_CASE(a_network_is_16_bits_of_ipv4_and_32_of_ipv6) {
  BOOST_TEST(network_of("1.2.3.4:7") == network_of("1.2.250.1:9"));
  BOOST_TEST(network_of("1.2.3.4:7") != network_of("1.3.3.4:7"));
  BOOST_TEST(network_of("[2001:db8:1::1]:7") == network_of("[2001:db8:ffff:2::9]:7"));
  BOOST_TEST(network_of("[2001:db8::1]:7") != network_of("[2001:db9::1]:7"));
  BOOST_TEST(network_of("[::ffff:1.2.3.4]:7") == network_of("1.2.9.9:7"));
  BOOST_TEST(network_of("[fe80::1%eth0]:7") == network_of("[fe80:0:1::]:7"));
  BOOST_TEST(network_of("a.example:7") != network_of("b.example:7"));
  for (const char* odd : {"1.2.3:7", "1.2.3.256:7", "[1:2:3]:7", "[::1::2]:7", "[:]:7"}) {
    BOOST_TEST(network_of(odd) != network_of("1.2.3.4:7"), odd);
  }
}

BOOST_AUTO_TEST_CASE(a_member_is_met_where_it_is_seen_and_where_it_listens) {
  starling::wire::MemberRecord record{.addresses = {"10.0.0.1:7"}};
  const std::vector<std::string> seen{"1.2.3.4:9", "1.2.3.4:7"};
  BOOST_TEST(meeting_places(record, "1.2.3.4:9") == seen);
  record.reach = starling::wire::Reachability::reachable;
  const std::vector<std::string> dialed{"10.0.0.1:7", "1.2.3.4:9"};
  BOOST_TEST(meeting_places(record, "1.2.3.4:9") == dialed);
  BOOST_TEST(meeting_places({}, "").empty());
}

BOOST_AUTO_TEST_SUITE_END()
