#include "io/raw_address.hpp"

#include <algorithm>

#include <boost/test/unit_test.hpp>

using namespace starling;
using namespace starling::io;

BOOST_AUTO_TEST_SUITE(raw_address)

BOOST_AUTO_TEST_CASE(what_sockets_are_given_is_what_they_give_back) {
  for (const char* text : {"10.0.0.5:7000", "[2001:db8::1]:1", "0.0.0.0:0", "[::]:65535"}) {
    const base::IpPort address = base::parse_ip_port(text).value();
    const RawAddress raw(address);
    BOOST_TEST((ip_port_of(raw.get()) == address), text);
    BOOST_TEST(raw.family() == (address.ip.is_v4() ? AF_INET : AF_INET6));
    BOOST_TEST(raw.size() == (address.ip.is_v4() ? sizeof(sockaddr_in) : sizeof(sockaddr_in6)));
  }
  const base::IpPort link{base::Ip::parse("fe80::1")->on_interface(3), 7};
  BOOST_TEST((ip_port_of(RawAddress(link).get()) == link));
}

// As a socket for both families shows it.
BOOST_AUTO_TEST_CASE(ipv4_in_ipv6s_clothes_is_ipv4) {
  sockaddr_in6 shown{};
  shown.sin6_family = AF_INET6;
  shown.sin6_port = htons(7000);
  std::ranges::copy(base::Ip::parse("10.0.0.5")->mapped(), shown.sin6_addr.s6_addr);
  const auto address = ip_port_of(reinterpret_cast<const sockaddr*>(&shown));
  BOOST_REQUIRE(address.has_value());
  BOOST_TEST(to_string(*address) == "10.0.0.5:7000");
}

BOOST_AUTO_TEST_CASE(other_families_are_no_address) {
  sockaddr_storage other{};
  other.ss_family = AF_UNIX;
  BOOST_TEST(!ip_port_of(other));
  BOOST_TEST(!ip_port_of(nullptr));
  BOOST_TEST(!ip_port_from([](sockaddr*, socklen_t*) { return -1; }));
}

BOOST_AUTO_TEST_SUITE_END()
