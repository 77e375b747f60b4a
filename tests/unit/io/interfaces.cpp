#include "io/interfaces.hpp"

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include <boost/test/unit_test.hpp>

#include "wire/messages.hpp"

using namespace starling;
using namespace starling::io;

namespace {

const base::IpPort kBoth{base::Ip::any_v6(), 7};

base::Ip at(std::string_view host) { return base::Ip::parse(host).value(); }

OwnAddress own(const std::string& host, const std::string& interface = "eth0") {
  return {.address = at(host), .interface = interface};
}

OwnAddress route(OwnAddress made) {
  made.is_route = true;
  return made;
}

OwnAddress inner(OwnAddress made) {
  made.is_inner = true;
  return made;
}

OwnAddress temporary(OwnAddress made) {
  made.is_temporary = true;
  return made;
}

OwnAddress deprecated(OwnAddress made) {
  made.is_deprecated = true;
  return made;
}

/// The told addresses of a listener at port 7 of all addresses, without the port.
std::string told(const std::vector<OwnAddress>& all, const KnownOfSelf& known = {},
                 const base::IpPort& bound = kBoth) {
  std::string text;
  for (std::string& address : told_addresses(bound, known, all, wire::kAddressesMax)) {
    if (address.ends_with(":7")) address.resize(address.size() - 2);
    text += address + " ";
  }
  return text;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(interfaces)

BOOST_AUTO_TEST_CASE(ten_bridges_before_the_card_do_not_hide_it) {
  std::vector<OwnAddress> all;
  for (int i = 0; i < 10; ++i) {
    all.push_back(inner(own("172." + std::to_string(17 + i) + ".0.1", "br-" + std::to_string(i))));
  }
  all.push_back(own("192.168.1.5"));
  BOOST_TEST(told(all) == "192.168.1.5 ");
  // Nor do ten networks of which one cannot tell that they lead nowhere.
  for (OwnAddress& one : all) one.is_inner = false;
  all.back() = route(all.back());
  BOOST_TEST(told(all).starts_with("192.168.1.5 172.17.0.1 "));
  BOOST_TEST(told_addresses(kBoth, {}, all, wire::kAddressesMax).size() == wire::kAddressesMax);
}

BOOST_AUTO_TEST_CASE(a_bridge_is_told_last_and_only_if_somebody_came_over_it) {
  const std::vector<OwnAddress> all{inner(own("172.17.0.1", "docker0")),
                                    inner(own("192.168.122.1", "virbr0")), own("10.0.0.5")};
  BOOST_TEST(told(all) == "10.0.0.5 ");
  BOOST_TEST(told(all, {.used = {at("172.17.0.1"), at("10.0.0.5")}}) == "10.0.0.5 172.17.0.1 ");
}

BOOST_AUTO_TEST_CASE(a_bridge_that_leads_to_the_world_is_a_card) {
  BOOST_TEST(told({own("10.0.0.5"), route(inner(own("192.168.1.5", "br0")))}) ==
             "192.168.1.5 10.0.0.5 ");
}

BOOST_AUTO_TEST_CASE(addresses_are_told_by_use) {
  const std::vector<OwnAddress> all{own("169.254.7.7", "eth3"), own("10.0.0.5", "eth2"),
                                    own("fd00::5", "eth2"),     own("2001:db8:2::5", "eth1"),
                                    own("9.0.0.9", "eth1"),     own("fe80::5", "eth0"),
                                    route(own("2001:db8::5")),  route(own("192.168.1.5"))};
  BOOST_TEST(told(all) ==
             "[2001:db8::5] 192.168.1.5 9.0.0.9 [2001:db8:2::5] 10.0.0.5 [fd00::5] 169.254.7.7 ");
}

BOOST_AUTO_TEST_CASE(what_a_person_gave_comes_first_and_as_it_was_given) {
  const KnownOfSelf known{.announced = {"home.example.org:7", "192.168.1.5:7"},
                          .outer = {"9.0.0.9:4711", "home.example.org:7"}};
  BOOST_TEST(told({route(own("192.168.1.5")), own("10.0.0.5", "eth1")}, known) ==
             "home.example.org 192.168.1.5 9.0.0.9:4711 10.0.0.5 ");
  BOOST_TEST(told({}, known, {at("10.0.0.5"), 7}) ==
             "home.example.org 192.168.1.5 9.0.0.9:4711 10.0.0.5 ");
}

BOOST_AUTO_TEST_CASE(lasting_addresses_take_the_place_of_temporary_ones) {
  const std::vector<OwnAddress> all{route(temporary(own("2001:db8::aaaa"))), own("2001:db8::5"),
                                    deprecated(temporary(own("2001:db8::bbbb"))),
                                    own("2001:db8:9::9", "eth1")};
  BOOST_TEST(told(all) == "[2001:db8::5] [2001:db8:9::9] ");
  BOOST_TEST(told({temporary(own("2001:db8::aaaa")), own("fd00::5")}) ==
             "[2001:db8::aaaa] [fd00::5] ");
  BOOST_TEST(told({deprecated(own("2001:db8::5"))}).empty());
}

BOOST_AUTO_TEST_CASE(a_listener_of_ipv4_alone_tells_no_other) {
  const std::vector<OwnAddress> all{own("2001:db8::5"), own("10.0.0.5")};
  BOOST_TEST(told(all, {}, {{}, 7}) == "10.0.0.5 ");
  BOOST_TEST(told(all, {}, {at("2001:db8::7"), 7}) == "[2001:db8::7] ");
}

BOOST_AUTO_TEST_CASE(loopback_is_nothing_for_others_but_better_than_nothing) {
  BOOST_TEST(told({own("127.0.0.2", "lo"), own("::1", "lo"), own("fe80::1")}).empty());
  const auto addresses = reachable_addresses(kBoth, {}, 8);
  BOOST_TEST(!addresses.empty());
  const auto external = external_addresses(kBoth, {}, 8);
  BOOST_TEST((external.empty() ? addresses[0] == "127.0.0.1:7" : addresses == external));
}

BOOST_AUTO_TEST_CASE(bridges_without_a_card_are_inner) {
  const std::vector<NetLink> links{{.index = 1, .name = "lo"},
                                   {.index = 2, .master = 5, .name = "eth0"},
                                   {.index = 3, .master = 6, .name = "veth1", .kind = "veth"},
                                   {.index = 4, .master = 6, .name = "tap0", .kind = "tun"},
                                   {.index = 5, .name = "br0", .kind = "bridge"},
                                   {.index = 6, .name = "docker0", .kind = "bridge"},
                                   {.index = 7, .name = "br-empty", .kind = "bridge"},
                                   {.index = 8, .master = 9, .name = "bond0", .kind = "bond"},
                                   {.index = 9, .name = "br1", .kind = "bridge"},
                                   {.index = 10, .name = "veth2", .kind = "veth"}};
  std::string inner_ones;
  for (const NetLink& link : links) {
    if (is_inner_bridge(link, links)) inner_ones += link.name + " ";
  }
  BOOST_TEST(inner_ones == "docker0 br-empty ");
}

BOOST_AUTO_TEST_CASE(the_kernel_tells_interfaces_and_addresses) {
  const std::vector<NetLink> links = net_links();
  const auto loopback = std::ranges::find(links, true, &NetLink::is_loopback);
  BOOST_REQUIRE((loopback != links.end()));
  BOOST_TEST(loopback->name == "lo");
  const std::vector<NetAddress> addresses = net_addresses();
  BOOST_TEST(std::ranges::any_of(addresses, [&](const NetAddress& one) {
    return one.address == at("127.0.0.1") && one.link == loopback->index;
  }));
  for (const OwnAddress& one : own_addresses()) BOOST_TEST(one.interface != "lo");
}

BOOST_AUTO_TEST_CASE(what_is_sent_to_loopback_comes_from_it) {
  BOOST_TEST((source_to(at("127.0.0.1")) == at("127.0.0.1")));
  BOOST_TEST((source_to(at("::1")) == at("::1")));
}

BOOST_AUTO_TEST_SUITE_END()
