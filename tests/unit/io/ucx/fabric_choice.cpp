#include "io/ucx/fabric_choice.hpp"

#include <algorithm>
#include <vector>

#include <boost/test/unit_test.hpp>

#include "harness.hpp"
#include "io/ucx/interface_addresses.hpp"

using namespace starling::io::ucx;
using starling::io::ucx::test::ip;
using starling::io::ucx::test::says;

namespace {

FabricFacts facts(const char* here = "auto", const char* there = "auto") {
  return {.here = {.fabric = here, .version = {1, 13, 1}},
          .there = {.fabric = there, .version = {1, 13, 0}}};
}

/// "" where a fabric is chosen. The other end must come to the same choice.
std::string why_not(const FabricFacts& facts) {
  FabricFacts swapped = facts;
  std::swap(swapped.here, swapped.there);
  const FabricChoice choice = choose_fabric(facts);
  BOOST_TEST((choose_fabric(swapped).kind == choice.kind));
  BOOST_TEST((choice.kind == FabricKind::none) == !choice.why_not.empty());
  return choice.why_not;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(fabric_choice)

BOOST_AUTO_TEST_CASE(ends_of_one_machine_and_user_use_loopback) {
  FabricFacts near = facts();
  near.same_machine = true;
  near.same_subnet = true;
  BOOST_TEST((choose_fabric(near).kind == FabricKind::machine));
  BOOST_TEST(why_not(near) == "");
}

BOOST_AUTO_TEST_CASE(a_private_subnet_is_a_fabric_in_a_closed_swarm_alone) {
  FabricFacts office = facts();
  BOOST_TEST(says(why_not(office), "neither of one machine and user nor on one private subnet"));
  office.same_subnet = true;
  BOOST_TEST(says(why_not(office), "has no secret"));
  office.closed_swarm = true;
  BOOST_TEST(why_not(office) == "");
  BOOST_TEST((choose_fabric(office).kind == FabricKind::subnet));
  office.same_subnet = false;
  BOOST_TEST(says(why_not(office), "private subnet"));
}

BOOST_AUTO_TEST_CASE(a_name_is_enough_where_both_ends_give_it) {
  BOOST_TEST((choose_fabric(facts("rack", "rack")).kind == FabricKind::named));
  BOOST_TEST(says(why_not(facts("rack", "shelf")), "\"rack\" here and \"shelf\" at the other end"));
  FabricFacts half = facts("rack", "auto");
  half.same_machine = half.same_subnet = half.closed_swarm = true;
  BOOST_TEST(says(why_not(half), "\"rack\" here and \"auto\" at the other end"));
}

BOOST_AUTO_TEST_CASE(none_at_one_end_is_none) {
  FabricFacts near = facts("none", "auto");
  near.same_machine = true;
  BOOST_TEST(says(why_not(near), "\"none\" here"));
  near = facts("auto", "none");
  near.same_machine = true;
  BOOST_TEST(says(why_not(near), "\"none\" at the other end"));
  BOOST_TEST(says(why_not(facts("none", "none")), "none"));
}

BOOST_AUTO_TEST_CASE(what_an_end_lacks_is_told) {
  FabricFacts near = facts();
  near.same_machine = true;
  near.there.version = {1, 16, 0};
  BOOST_TEST(says(why_not(near), "UCX 1.13.1 here and 1.16.0 at the other end do not link"));
  near.there.version = {};
  BOOST_TEST(why_not(near) == "");  // shows when it is loaded
  near.there.why_not = "UCX is not there";
  BOOST_TEST(says(why_not(near), "at the other end: UCX is not there"));
  near.here.why_not = "the host's name is too long";
  BOOST_TEST(choose_fabric(near).why_not == "the host's name is too long");
  near = facts();
  near.same_machine = true;
  near.encrypted = false;
  BOOST_TEST(says(why_not(near), "security.mode is \"off\""));
}

BOOST_AUTO_TEST_CASE(a_subnet_is_found_by_the_interface_that_the_link_came_over) {
  const std::vector<InterfaceAddress> interfaces{{"lo", ip("127.0.0.1"), 8},
                                                 {"eth0", ip("203.0.113.5"), 24},
                                                 {"docker0", ip("172.17.0.1"), 16},
                                                 {"eth1", ip("192.168.1.5"), 24},
                                                 {"eth1", ip("fd00:1::5"), 64}};
  const auto found = [&](const char* here, const char* there) {
    const auto one = shared_private_subnet(interfaces, ip(here), ip(there));
    return one ? one->device : "";
  };
  BOOST_TEST(found("192.168.1.5", "192.168.1.9") == "eth1");
  BOOST_TEST(found("fd00:1::5", "fd00:1::9") == "eth1");
  BOOST_TEST(found("172.17.0.1", "172.17.3.3") == "docker0");
  BOOST_TEST(found("192.168.1.5", "192.168.2.9") == "");
  BOOST_TEST(found("192.168.1.5", "172.17.3.3") == "");
  BOOST_TEST(found("192.168.1.6", "192.168.1.9") == "");  // no address of this machine
  BOOST_TEST(found("203.0.113.5", "203.0.113.6") == "");
  BOOST_TEST(found("127.0.0.1", "127.0.0.2") == "");
  BOOST_TEST(found("192.168.1.5", "192.168.1.5") == "");
}

BOOST_AUTO_TEST_CASE(loopback_is_among_the_interfaces) {
  const auto all = interface_addresses();
  BOOST_TEST(std::ranges::any_of(all, [](const InterfaceAddress& one) {
    return one.device == "lo" && one.address == ip("127.0.0.1") && one.prefix == 8;
  }));
}

BOOST_AUTO_TEST_SUITE_END()
