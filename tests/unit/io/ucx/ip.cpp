#include "io/ucx/ip.hpp"

#include <boost/test/unit_test.hpp>

#include "harness.hpp"

using namespace starling::io::ucx;
using starling::io::ucx::test::ip;

BOOST_AUTO_TEST_SUITE(ip_address)

BOOST_AUTO_TEST_CASE(text_and_sockets_give_the_same_address) {
  for (const char* text : {"0.0.0.0", "10.1.2.3", "255.255.255.255", "::", "::1", "2001:db8::7"}) {
    BOOST_TEST_CONTEXT(text) {
      sockaddr_storage address;
      static_cast<void>(ip(text).to_socket(4711, address));
      BOOST_TEST((Ip::from(address) == ip(text)));
      BOOST_TEST(port_of(address) == 4711);
      BOOST_TEST(ip(text).text() == text);
    }
  }
  for (const char* text : {"", "1.2.3", "1.2.3.4.5", "host", "1.2.3.4:5", "[::1]"}) {
    BOOST_TEST(!Ip::parse(text).has_value());
  }
  BOOST_TEST((ip("::ffff:10.1.2.3") == ip("10.1.2.3")));
  sockaddr_storage local{};
  local.ss_family = AF_UNIX;
  BOOST_TEST(!Ip::from(local).has_value());
  BOOST_TEST(port_of(local) == 0);
}

BOOST_AUTO_TEST_CASE(private_networks_and_loopback_are_known) {
  for (const char* text :
       {"10.0.0.1", "172.16.0.1", "172.31.255.1", "192.168.7.7", "fd00::1", "fc00::1"}) {
    BOOST_TEST(ip(text).is_private(), text);
  }
  for (const char* text : {"9.9.9.9", "172.15.0.1", "172.32.0.1", "192.169.0.1", "100.64.0.1",
                           "169.254.1.1", "127.0.0.1", "2001:db8::1", "fe80::1", "::1"}) {
    BOOST_TEST(!ip(text).is_private(), text);
  }
  for (const char* text : {"127.0.0.1", "127.9.9.9", "::1"}) BOOST_TEST(ip(text).is_loopback());
  for (const char* text : {"126.0.0.1", "::", "::2", "1::1"}) BOOST_TEST(!ip(text).is_loopback());
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
  BOOST_TEST(!ip("::").shares_prefix(ip("0.0.0.0"), 0));
}

BOOST_AUTO_TEST_SUITE_END()
