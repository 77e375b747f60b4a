#include "io/socket_address.hpp"

#include <set>
#include <string>

#include <boost/test/unit_test.hpp>

#include "io/address.hpp"

using namespace starling::io;

namespace {

SocketAddress at(const std::string& host, std::uint16_t port = 1) {
  return numeric_address({host, port}).value();
}

/// What kind of address this is; exactly one of the kinds, or none.
std::string kind(const std::string& host) {
  const SocketAddress address = at(host);
  std::string kinds;
  if (address.is_any()) kinds += "any";
  if (address.is_loopback()) kinds += "loopback";
  if (address.is_link_local()) kinds += "link";
  if (address.is_private()) kinds += "private";
  if (address.is_global()) kinds += "global";
  return kinds;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(socket_address)

BOOST_AUTO_TEST_CASE(ipv4_in_ipv6s_clothes_is_ipv4) {
  const SocketAddress plain = at("10.0.0.5", 7000);
  const SocketAddress mapped(plain.v6());
  BOOST_TEST(mapped.is_v4());
  BOOST_TEST((mapped == plain));
  BOOST_TEST(to_string(mapped) == "10.0.0.5:7000");
  BOOST_TEST(mapped.size() == sizeof(sockaddr_in));
  BOOST_TEST(!at("2001:db8::1").v4());
  BOOST_TEST(at("2001:db8::1").size() == sizeof(sockaddr_in6));
}

BOOST_AUTO_TEST_CASE(a_system_call_may_give_other_families) {
  sockaddr_storage other{};
  other.ss_family = AF_UNIX;
  BOOST_TEST(!SocketAddress::from(other));
  BOOST_TEST(!SocketAddress::from(nullptr));
  BOOST_TEST((SocketAddress::from(at("::1").raw()) == at("::1")));
}

BOOST_AUTO_TEST_CASE(kinds_of_addresses) {
  for (const char* host : {"0.0.0.0", "::"}) BOOST_TEST(kind(host) == "any", host);
  for (const char* host : {"127.0.0.1", "127.8.0.1", "::1"}) {
    BOOST_TEST(kind(host) == "loopback", host);
  }
  for (const char* host : {"169.254.3.4", "fe80::1", "febf::1"}) BOOST_TEST(kind(host) == "link");
  for (const char* host : {"10.1.2.3", "172.16.0.1", "172.31.255.1", "192.168.0.1", "100.64.0.1",
                           "100.127.0.1", "fc00::1", "fd12:3456::1"}) {
    BOOST_TEST(kind(host) == "private", host);
  }
  for (const char* host : {"9.9.9.9", "172.32.0.1", "172.15.0.1", "192.167.0.1", "100.128.0.1",
                           "2001:db8::1", "2a00::1"}) {
    BOOST_TEST(kind(host) == "global", host);
  }
  for (const char* host : {"224.0.0.1", "255.255.255.255", "0.0.0.1", "ff02::1", "::2"}) {
    BOOST_TEST(kind(host).empty(), host);
  }
}

BOOST_AUTO_TEST_CASE(equal_hosts_and_holders) {
  BOOST_TEST(at("10.0.0.1", 1).same_host(at("10.0.0.1", 2)));
  BOOST_TEST(!at("10.0.0.1").same_host(at("10.0.0.2")));
  BOOST_TEST(!at("10.0.0.1").same_holder(at("10.0.0.2")));
  BOOST_TEST(at("2001:db8::1", 1).same_holder(at("2001:db8::2", 2)));
  BOOST_TEST(!at("2001:db8::1").same_holder(at("2001:db8:0:1::1")));
  BOOST_TEST(!at("2001:db8::1").same_holder(at("10.0.0.1")));
}

BOOST_AUTO_TEST_CASE(an_interface_counts_where_an_address_needs_it_alone) {
  sockaddr_in6 one = at("2001:db8::1").v6();
  one.sin6_scope_id = 3;
  BOOST_TEST((SocketAddress(one) == at("2001:db8::1")));
  sockaddr_in6 link = at("fe80::1").v6();
  link.sin6_scope_id = 3;
  BOOST_TEST((SocketAddress(link) != at("fe80::1")));
  link.sin6_scope_id = 1'000'000;  // none
  BOOST_TEST(to_string(SocketAddress(link)) == "[fe80::1%1000000]:1");
}

BOOST_AUTO_TEST_CASE(they_are_ordered) {
  const std::set<SocketAddress> ordered{at("::1"), at("10.0.0.2"), at("10.0.0.1", 2),
                                        at("10.0.0.1", 1), at("10.0.0.1", 1)};
  std::string all;
  for (const SocketAddress& address : ordered) all += to_string(address) + " ";
  BOOST_TEST(all == "10.0.0.1:1 10.0.0.1:2 10.0.0.2:1 [::1]:1 ");
}

BOOST_AUTO_TEST_CASE(of_all_addresses_there_are_two_kinds) {
  BOOST_TEST(to_string(SocketAddress::any_of_both(7)) == "[::]:7");
  BOOST_TEST(to_string(SocketAddress::any_v4(7)) == "0.0.0.0:7");
  BOOST_TEST(to_string(SocketAddress::loopback(SocketAddress::any_of_both(7))) == "[::1]:7");
  BOOST_TEST(to_string(SocketAddress::loopback(SocketAddress::any_v4(7))) == "127.0.0.1:7");
}

BOOST_AUTO_TEST_SUITE_END()
