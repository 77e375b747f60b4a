#include "io/nat.hpp"

#include <string>
#include <vector>

#include <boost/test/unit_test.hpp>

#include "io/address.hpp"

using namespace starling::io;

namespace {

starling::base::IpPort at(const std::string& address) {
  return numeric_address(parse_target(address).value()).value();
}

constexpr char kHome[] = "192.168.1.2:5000";
constexpr char kA[] = "203.0.113.1:7000";
constexpr char kB[] = "198.51.100.1:7000";

Sighting seen(const std::string& own, const std::string& peer, const std::string& observed) {
  return {at(own), at(peer), at(observed)};
}

/// Each family's kind and outer address, and that of a second sighting that was compared.
std::string judged(const std::vector<Sighting>& sightings) {
  constexpr const char* kKinds[] = {"none", "unknown", "moderate", "strict"};
  std::string text;
  for (const Nat& nat : judge_nat(sightings)) {
    text += (text.empty() ? "" : "; ") + std::string(kKinds[static_cast<int>(nat.kind)]) + " " +
            to_string(nat.seen.observed);
    if (nat.another) text += " " + to_string(nat.another->observed);
  }
  return text;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(nat)

BOOST_AUTO_TEST_CASE(an_address_that_others_see_as_it_is_is_not_translated) {
  const std::string own = "192.0.2.7:5000";
  BOOST_TEST(judged({seen(own, kA, own), seen(own, kB, own)}) == "none 192.0.2.7:5000");
}

BOOST_AUTO_TEST_CASE(one_outer_port_for_two_hosts_is_moderate) {
  BOOST_TEST(judged({seen(kHome, kA, "192.0.2.7:5000"), seen(kHome, kB, "192.0.2.7:5000")}) ==
             "moderate 192.0.2.7:5000 192.0.2.7:5000");
  BOOST_TEST(judged({seen(kHome, kA, "192.0.2.7:9")}) == "unknown 192.0.2.7:9");
  // A router may keep one port for a host, and another for the next.
  BOOST_TEST(judged({seen(kHome, kA, "192.0.2.7:9"),
                     seen(kHome, "203.0.113.1:7001", "192.0.2.7:9")}) == "unknown 192.0.2.7:9");
}

BOOST_AUTO_TEST_CASE(another_port_or_address_for_each_is_strict) {
  BOOST_TEST(judged({seen(kHome, kA, "192.0.2.7:9"), seen(kHome, kB, "192.0.2.7:8")}) ==
             "strict 192.0.2.7:9 192.0.2.7:8");
  BOOST_TEST(judged({seen(kHome, kA, "192.0.2.7:9"), seen(kHome, kB, "192.0.2.8:9")}) ==
             "strict 192.0.2.7:9 192.0.2.8:9");
  BOOST_TEST(
      judged({seen(kHome, kA, "192.0.2.7:9"), seen(kHome, "203.0.113.1:7001", "192.0.2.7:8")}) ==
      "strict 192.0.2.7:9 192.0.2.7:8");
  // Two that agree do not make up for a third.
  BOOST_TEST(judged({seen(kHome, kA, "192.0.2.7:9"), seen(kHome, kB, "192.0.2.7:9"),
                     seen(kHome, "198.51.100.2:7000", "192.0.2.7:8")}) ==
             "strict 192.0.2.7:9 192.0.2.7:8");
}

BOOST_AUTO_TEST_CASE(only_what_left_from_one_port_is_compared) {
  BOOST_TEST(judged({seen("192.168.1.2:5000", kA, "192.0.2.7:5000"),
                     seen("192.168.1.2:5001", kB, "192.0.2.7:5001")}) == "unknown 192.0.2.7:5000");
  BOOST_TEST(judged({seen("192.168.1.2:5000", kA, "192.0.2.7:5000"),
                     seen("10.0.0.2:5000", kB, "198.51.100.7:5000")}) == "unknown 192.0.2.7:5000");
}

BOOST_AUTO_TEST_CASE(who_is_near_does_not_see_what_is_in_between) {
  const Sighting near = seen(kHome, "192.168.1.3:7000", kHome);
  BOOST_TEST(judged({near}) == "none 192.168.1.2:5000");
  BOOST_TEST(judged({near, seen(kHome, kA, "192.0.2.7:9")}) == "unknown 192.0.2.7:9");
  // Another customer of the provider is nearer than the internet.
  const Sighting inside = seen(kHome, "100.64.0.9:7000", "100.64.0.2:5000");
  BOOST_TEST(judged({inside, seen(kHome, kA, "192.0.2.7:9")}) == "unknown 192.0.2.7:9");
  BOOST_TEST(judged({inside, seen(kHome, "10.0.0.9:7000", "10.0.0.2:9")}) ==
             "unknown 100.64.0.2:5000");
  BOOST_TEST(judged({inside, seen(kHome, "100.64.0.8:7000", "100.64.0.2:5001")}) ==
             "strict 100.64.0.2:5000 100.64.0.2:5001");
  BOOST_TEST(judged({seen("127.0.0.1:5000", "127.0.0.1:7000", "127.0.0.1:5000")}).empty());
  BOOST_TEST(judged({}).empty());
}

BOOST_AUTO_TEST_CASE(families_are_judged_apart) {
  const std::string own6 = "[2001:db8::7]:5000";
  BOOST_TEST(judged({seen(own6, "[2001:db8:1::1]:7000", own6), seen(kHome, kA, "192.0.2.7:9")}) ==
             "unknown 192.0.2.7:9; none [2001:db8::7]:5000");
}

BOOST_AUTO_TEST_CASE(a_mapping_that_others_do_not_see_is_behind_another_router) {
  const auto moderate =
      judge_nat(std::vector{seen(kHome, kA, "192.0.2.7:5000"), seen(kHome, kB, "192.0.2.7:5000")});
  BOOST_TEST(!is_behind_another(at("192.0.2.7:7000"), moderate));
  BOOST_TEST(!is_behind_another(at("192.0.2.7:7000"), {}));
  BOOST_TEST(is_behind_another(at("192.0.2.8:7000"), moderate));
  BOOST_TEST(is_behind_another(at("100.64.0.2:7000"), moderate));
  BOOST_TEST(is_behind_another(at("192.168.0.2:7000"), {}));
  // A machine has many addresses of IPv6.
  const auto v6 = judge_nat(
      std::vector{seen("[2001:db8::7]:5000", "[2001:db8:1::1]:7000", "[2001:db8::7]:5000")});
  BOOST_TEST(!is_behind_another(at("[2001:db8::8]:7000"), v6));
  // A connection that comes in at one address may leave by another.
  const auto none = judge_nat(std::vector{seen("198.51.100.7:5000", kA, "198.51.100.7:5000")});
  BOOST_TEST(!is_behind_another(at("192.0.2.7:7000"), none));
}

BOOST_AUTO_TEST_SUITE_END()
