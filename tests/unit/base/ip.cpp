#include "base/ip.hpp"

#include <set>
#include <string>

#include <boost/test/unit_test.hpp>

using namespace starling::base;

namespace {

Ip ip(std::string_view text) { return Ip::parse(text).value(); }

/// The kind of this address; exactly one of the kinds, or none.
std::string kind(const std::string& text) {
  const Ip address = ip(text);
  std::string kinds;
  if (address.is_any()) kinds += "any";
  if (address.is_loopback()) kinds += "loopback";
  if (address.is_link_local()) kinds += "link";
  if (address.is_private()) kinds += "private";
  if (address.is_shared()) kinds += "shared";
  if (address.is_global()) kinds += "global";
  return kinds;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(ip_address)

BOOST_AUTO_TEST_CASE(text_is_read_and_written) {
  for (const char* text : {"0.0.0.0", "10.1.2.3", "255.255.255.255", "::", "::1", "2001:db8::7",
                           "2001:db8:1:2:3:4:5:6"}) {
    BOOST_TEST(ip(text).text() == text);
    BOOST_TEST(ip(text).is_v6() == (std::string(text).find(':') != std::string::npos));
  }
  BOOST_TEST(ip("2001:DB8:0:0::7").text() == "2001:db8::7");
}

BOOST_AUTO_TEST_CASE(what_is_no_address_alone_is_refused) {
  for (const std::string_view text :
       {"", "1.2.3", "1.2.3.4.5", "1.2.3.256", "01.2.3.4", "1.2.3.4 ", "host", "1.2.3.4:5", "[::1]",
        "::1%lo", "fe80::1%eth0", "1::2::3", ":", "1:2:3",
        "12345::", "1111:2222:3333:4444:5555:6666:255.255.255.2555"}) {
    BOOST_TEST(!Ip::parse(text).has_value(), text);
  }
  BOOST_TEST(!Ip::parse(std::string_view("1.2.3.4\0x", 9)).has_value());
}

BOOST_AUTO_TEST_CASE(ipv4_in_ipv6s_clothes_is_ipv4) {
  const Ip mapped = ip("::ffff:10.1.2.3");
  BOOST_TEST(mapped.is_v4());
  BOOST_TEST((mapped == ip("10.1.2.3")));
  BOOST_TEST(mapped.text() == "10.1.2.3");
  BOOST_TEST((Ip::of_bytes(mapped.mapped()) == mapped));
  BOOST_TEST(ip("::fffe:10.1.2.3").is_v6());
}

BOOST_AUTO_TEST_CASE(bytes_are_in_the_order_of_the_network) {
  const Ip v4 = Ip::v4(0x0a01'0203);
  BOOST_TEST(v4.text() == "10.1.2.3");
  BOOST_TEST(v4.bytes().size() == 4U);
  BOOST_TEST(int{v4.bytes()[3]} == 3);
  BOOST_TEST(int{v4.mapped()[12]} == 10);
  const Ip v6 = ip("2001:db8::7");
  BOOST_TEST(v6.bytes().size() == 16U);
  BOOST_TEST(int{v6.bytes()[0]} == 0x20);
  BOOST_TEST((Ip::of_bytes(v6.bytes()) == v6));
  BOOST_TEST((Ip::of_bytes(v4.bytes()) == v4));
  BOOST_TEST((Ip::of_bytes(v6.mapped()) == v6));
  BOOST_TEST(!Ip::of_bytes(v6.bytes().first(5)).has_value());
}

BOOST_AUTO_TEST_CASE(kinds_of_addresses) {
  for (const char* text : {"0.0.0.0", "::"}) BOOST_TEST(kind(text) == "any", text);
  for (const char* text : {"127.0.0.1", "127.9.9.9", "::1"}) {
    BOOST_TEST(kind(text) == "loopback", text);
  }
  for (const char* text : {"169.254.3.4", "fe80::1", "febf::1"}) {
    BOOST_TEST(kind(text) == "link", text);
  }
  for (const char* text :
       {"10.1.2.3", "172.16.0.1", "172.31.255.1", "192.168.0.1", "fc00::1", "fd12:3456::1"}) {
    BOOST_TEST(kind(text) == "private", text);
  }
  for (const char* text : {"100.64.0.1", "100.127.0.1"}) BOOST_TEST(kind(text) == "shared", text);
  for (const char* text :
       {"9.9.9.9", "172.32.0.1", "172.15.0.1", "192.167.0.1", "192.169.0.1", "100.63.0.1",
        "100.128.0.1", "169.253.0.1", "126.0.0.1", "2001:db8::1", "2a00::1"}) {
    BOOST_TEST(kind(text) == "global", text);
  }
  for (const char* text :
       {"224.0.0.1", "255.255.255.255", "0.0.0.1", "ff02::1", "::2", "fec0::1", "1::1"}) {
    BOOST_TEST(kind(text).empty(), text);
  }
  BOOST_TEST(Ip::loopback().text() == "127.0.0.1");
  BOOST_TEST(Ip::any_v6().text() == "::");
}

BOOST_AUTO_TEST_CASE(prefixes_are_compared_bit_by_bit) {
  BOOST_TEST(ip("10.1.2.3").shares_prefix(ip("10.1.3.4"), 23));
  BOOST_TEST(!ip("10.1.2.3").shares_prefix(ip("10.1.3.4"), 24));
  BOOST_TEST(ip("10.1.2.3").shares_prefix(ip("200.1.2.3"), 0));
  BOOST_TEST(!ip("10.1.2.3").shares_prefix(ip("10.1.2.4"), 32));
  BOOST_TEST(ip("10.1.2.3").shares_prefix(ip("10.1.2.3"), 32));
  BOOST_TEST(!ip("10.1.2.3").shares_prefix(ip("10.1.2.3"), 33));
  BOOST_TEST(ip("fd00::1").shares_prefix(ip("fd00::2"), 64));
  BOOST_TEST(!ip("fd00::1").shares_prefix(ip("fd00:0:0:1::1"), 64));
  BOOST_TEST(ip("fd00::1").shares_prefix(ip("fd00::1"), 128));
  BOOST_TEST(!ip("fd00::1").shares_prefix(ip("fd00::1"), 129));
  BOOST_TEST(!ip("::").shares_prefix(ip("0.0.0.0"), 0));
}

BOOST_AUTO_TEST_CASE(a_holder_has_one_ipv4_address_or_a_64_of_ipv6) {
  BOOST_TEST(ip("10.0.0.1").same_holder(ip("10.0.0.1")));
  BOOST_TEST(!ip("10.0.0.1").same_holder(ip("10.0.0.2")));
  BOOST_TEST(ip("2001:db8::1").same_holder(ip("2001:db8::2")));
  BOOST_TEST(!ip("2001:db8::1").same_holder(ip("2001:db8:0:1::1")));
  BOOST_TEST(!ip("2001:db8::1").same_holder(ip("10.0.0.1")));
  BOOST_TEST(!ip("fe80::1").on_interface(1).same_holder(ip("fe80::2").on_interface(2)));
}

BOOST_AUTO_TEST_CASE(an_interface_counts_where_an_address_needs_it_alone) {
  for (const char* text : {"2001:db8::1", "10.0.0.1", "169.254.0.1", "ff02::1"}) {
    BOOST_TEST((ip(text).on_interface(3) == ip(text)), text);
  }
  const Ip link = ip("fe80::1");
  BOOST_TEST(link.on_interface(3).interface() == 3U);
  BOOST_TEST((link.on_interface(3) != link));
  BOOST_TEST((link.on_interface(3).on_interface(0) == link));
  BOOST_TEST(link.on_interface(1'000'000).text() == "fe80::1%1000000");  // there is none
}

BOOST_AUTO_TEST_CASE(addresses_with_a_port_are_read_as_they_are_written) {
  for (const char* text : {"10.0.0.5:7000", "[2001:db8::1]:65535", "[::]:0"}) {
    const auto read = parse_ip_port(text);
    BOOST_REQUIRE(read.has_value());
    BOOST_TEST(to_string(*read) == text);
  }
  for (const char* text : {"", ":", "10.0.0.5", "10.0.0.5:", "10.0.0.5:65536", "10.0.0.5:-1",
                           "10.0.0.5:7 ", "[10.0.0.5]:7", "::1:7", "[::1]", "[::1]7", "[::1:7",
                           "[::ffff:10.0.0.5]:7", "[fe80::1%lo]:7", "host:7"}) {
    BOOST_TEST(!parse_ip_port(text).has_value(), text);
  }
  BOOST_TEST(to_address("host.example", 7) == "host.example:7");
  BOOST_TEST(to_address("fe80::1%eth0", 7) == "[fe80::1%eth0]:7");
}

BOOST_AUTO_TEST_CASE(they_are_ordered) {
  const std::set<IpPort> ordered{{ip("::1"), 1},
                                 {ip("10.0.0.2"), 1},
                                 {ip("10.0.0.1"), 2},
                                 {ip("10.0.0.1"), 1},
                                 {ip("10.0.0.1"), 1}};
  std::string all;
  for (const IpPort& address : ordered) all += to_string(address) + " ";
  BOOST_TEST(all == "10.0.0.1:1 10.0.0.1:2 10.0.0.2:1 [::1]:1 ");
}

BOOST_AUTO_TEST_SUITE_END()
