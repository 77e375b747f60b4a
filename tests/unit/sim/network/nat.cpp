#include "sim/network/nat.hpp"

#include <optional>
#include <string>

#include <boost/test/unit_test.hpp>

using namespace starling;
using namespace starling::sim;
using namespace std::chrono_literals;

namespace {

constexpr base::Time kNow{1000s};

/// Peers behind the devices of the entries, in order; the last peer is open, with IPv4 and IPv6.
struct Homes {
  explicit Homes(const std::vector<std::string>& entries)
      : count(static_cast<std::uint32_t>(entries.size()) + 1) {
    std::string text =
        "[scenario]\nname = \"t\"\nduration = 9\n[peers]\ncount = " + std::to_string(count) + "\n";
    for (std::size_t i = 0; i < entries.size(); ++i) {
      if (entries[i].empty()) continue;
      text += "[[network.nat]]\npeers = [" + std::to_string(i) + "]\n" + entries[i] + "\n";
    }
    text += "[[network.nat]]\npeers = [" + std::to_string(count - 1) +
            "]\nkind = \"open\"\nipv6 = \"both\"\n";
    nat.emplace(plan_of(text), 1);
  }

  static Plan plan_of(const std::string& text) {
    auto parsed = parse_scenario(text, "t.toml");
    BOOST_REQUIRE_MESSAGE(parsed, (parsed ? "" : parsed.error().text));
    auto plan = make_plan(std::move(*parsed), 1);
    BOOST_REQUIRE(plan);
    return *plan;
  }

  [[nodiscard]] base::IpPort at(std::uint32_t peer) const { return nat->outer(peer).front(); }
  std::optional<Nat::Passage> dial(std::uint32_t from, std::uint32_t to, bool punches = false,
                                   base::Time now = kNow) {
    return nat->dial(from, at(to), punches, now);
  }
  /// Both dial at once, each at the other's believed address. Returns whether one of them gets
  /// through.
  bool punch(std::uint32_t a, std::uint32_t b) {
    const bool first = dial(a, b, true).has_value();
    return dial(b, a, true, kNow + 50ms).has_value() || first;
  }

  std::uint32_t count;
  std::optional<Nat> nat;
};

const std::string kOpen = "kind = \"open\"";
const std::string kModerate = "kind = \"moderate\"";
const std::string kStrict = "kind = \"strict\"";
const std::string kCgnat = "kind = \"cgnat\"";
const std::string kFirewall = "kind = \"firewall\"";

}  // namespace

BOOST_AUTO_TEST_SUITE(nat)

BOOST_AUTO_TEST_CASE(who_is_behind_a_router_dials_out_and_is_not_dialed) {
  for (const std::string& kind : {kModerate, kStrict, kCgnat, kFirewall}) {
    BOOST_TEST_CONTEXT(kind) {
      Homes homes({kind, kind});
      const auto out = homes.dial(0, 2);
      BOOST_REQUIRE(out);
      BOOST_TEST(out->to == 2U);
      BOOST_TEST(!out->inside);
      BOOST_TEST((out->observed.ip == homes.at(0).ip));
      BOOST_TEST(!homes.dial(2, 0));
      BOOST_TEST(!homes.dial(1, 0));
    }
  }
}

BOOST_AUTO_TEST_CASE(who_is_open_is_dialed_by_all) {
  Homes homes({kOpen});
  BOOST_TEST(homes.dial(1, 0).has_value());
  BOOST_TEST(homes.dial(0, 1).has_value());
  // Its listening port, and no other.
  BOOST_TEST(!homes.nat->dial(1, {homes.at(0).ip, 7001}, false, kNow));
}

BOOST_AUTO_TEST_CASE(a_moderate_router_maps_a_port_alike_for_all_and_a_strict_one_does_not) {
  Homes homes({kModerate, kStrict, kOpen});
  for (const std::uint32_t peer : {0U, 1U}) {
    const auto one = homes.dial(peer, 2, true);
    const auto two = homes.dial(peer, 3, true);
    BOOST_REQUIRE((one && two));
    BOOST_TEST((one->observed.port == two->observed.port) == (peer == 0));
    // The same destination gets the same port again.
    BOOST_TEST(homes.dial(peer, 2, true)->observed.port == one->observed.port);
    BOOST_TEST((one->observed.port == kListeningPort) == (peer == 0));
  }
}

BOOST_AUTO_TEST_CASE(punching_works_where_the_other_end_can_say_where_it_will_come_from) {
  struct Case {
    std::string a, b;
    bool works;
  };
  const Case cases[] = {
      {kModerate, kModerate, true}, {kModerate, kOpen, true},    {kModerate, kCgnat, true},
      {kModerate, kFirewall, true}, {kModerate, kStrict, false}, {kFirewall, kFirewall, true},
      {kFirewall, kCgnat, true},    {kFirewall, kStrict, false}, {kFirewall, kOpen, true},
      {kCgnat, kCgnat, true},       {kCgnat, kStrict, false},    {kCgnat, kOpen, true},
      {kStrict, kStrict, false},    {kStrict, kOpen, true},      {kOpen, kOpen, true},
  };
  for (const Case& it : cases) {
    BOOST_TEST_CONTEXT(it.a << ", " << it.b) {
      BOOST_TEST(Homes({it.a, it.b}).punch(0, 1) == it.works);
      BOOST_TEST(Homes({it.b, it.a}).punch(0, 1) == it.works);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_router_lets_in_only_the_address_and_the_port_that_were_dialed) {
  Homes homes({kModerate, kModerate, kOpen});
  BOOST_TEST(!homes.dial(0, 1, true));
  BOOST_TEST(!homes.dial(2, 0, true));   // another address
  BOOST_TEST(!homes.dial(1, 0, false));  // another port
  BOOST_TEST(homes.dial(1, 0, true).has_value());
}

BOOST_AUTO_TEST_CASE(a_hole_is_closed_after_a_while_and_when_the_router_forgets) {
  const auto gets_in = [](auto&& meanwhile, base::Time then) {
    Homes homes({kModerate, kModerate});
    BOOST_TEST(!homes.dial(0, 1, true));
    meanwhile(*homes.nat);
    return homes.dial(1, 0, true, then).has_value();
  };
  const auto nothing = [](Nat&) {};
  BOOST_TEST(gets_in(nothing, kNow + Nat::kHoleLasts - 1s));
  BOOST_TEST(!gets_in(nothing, kNow + Nat::kHoleLasts));
  BOOST_TEST(!gets_in([](Nat& nat) { nat.lose_mappings(0); }, kNow));
  BOOST_TEST(!gets_in([](Nat& nat) { nat.restart(0); }, kNow));
  BOOST_TEST(gets_in([](Nat& nat) { nat.lose_mappings(1); }, kNow));
}

BOOST_AUTO_TEST_CASE(a_router_that_opens_ports_lets_all_in) {
  for (const std::string& kind : {kModerate, kStrict}) {
    Homes homes({kind + "\npcp = true"});
    const auto own = homes.nat->own(0);
    BOOST_REQUIRE(own.size() == 2U);
    BOOST_TEST(own[0].ip.is_private());
    BOOST_TEST((own[1] == homes.at(0)));
    BOOST_TEST(homes.dial(1, 0)->to == 0U);
    homes.nat->restart(0);
    BOOST_TEST(homes.dial(1, 0).has_value());
  }
  // The carrier's router is not asked, and the home router's mapping leads nowhere.
  Homes homes({kCgnat + "\npcp = true"});
  const auto own = homes.nat->own(0);
  BOOST_REQUIRE(own.size() == 2U);
  BOOST_TEST(own[1].ip.is_shared());
  BOOST_TEST(!homes.nat->dial(1, own[1], false, kNow));
  BOOST_TEST(!homes.dial(1, 0));
}

BOOST_AUTO_TEST_CASE(peers_of_one_router_reach_each_other_inside_alone) {
  const Plan plan = Homes::plan_of(
      "[scenario]\nname = \"t\"\nduration = 9\n[peers]\ncount = 4\nregions = [\"a\", \"b\"]\n"
      "[[network.nat]]\nregion = \"a\"\nkind = \"moderate\"\nshared = true\n");
  Nat nat(plan, 1);
  BOOST_TEST((nat.neighbours(0) == std::vector<std::uint32_t>{0, 2}));
  BOOST_TEST((nat.neighbours(1) == std::vector<std::uint32_t>{1}));
  const auto inside = nat.dial(0, nat.own(2).front(), false, kNow);
  BOOST_REQUIRE(inside);
  BOOST_TEST(inside->to == 2U);
  BOOST_TEST(inside->inside);
  // Not by the outer address, and never by an address in another home.
  BOOST_TEST((nat.outer(0).front().ip == nat.outer(2).front().ip));
  BOOST_TEST(!nat.dial(0, nat.outer(2).front(), false, kNow));
  BOOST_TEST(!nat.dial(1, nat.own(0).front(), false, kNow));
  // Each of them gets a separate outer port.
  const base::IpPort open = nat.outer(1).front();
  const auto one = nat.dial(0, open, true, kNow);
  const auto two = nat.dial(2, open, true, kNow);
  BOOST_REQUIRE((one && two));
  BOOST_TEST(one->observed.port != two->observed.port);
  BOOST_TEST((nat.outer(2).front() == two->observed));
}

BOOST_AUTO_TEST_CASE(homes_have_the_same_inner_addresses) {
  Homes homes({kModerate, kModerate});
  BOOST_TEST((homes.nat->own(0) == homes.nat->own(1)));
  // So dialing another home's address leads to the peer itself.
  BOOST_TEST(homes.nat->dial(0, homes.nat->own(1).front(), false, kNow)->to == 0U);
}

BOOST_AUTO_TEST_CASE(ipv6_is_filtered_and_never_mapped) {
  Homes homes({"kind = \"open\"\nipv6 = \"only\"", kModerate + "\nipv6 = \"both\"", kModerate});
  const base::IpPort only = homes.at(0);
  BOOST_TEST(only.ip.is_v6());
  BOOST_TEST(!homes.nat->dial(2, only, false, kNow));  // it has only IPv4
  BOOST_TEST(!homes.dial(0, 2));
  const auto home = homes.nat->outer(1);
  BOOST_REQUIRE(home.size() == 2U);
  const auto out = homes.nat->dial(1, only, true, kNow);
  BOOST_REQUIRE(out);
  BOOST_TEST((out->observed == home[1]));
  BOOST_TEST(homes.nat->dial(0, home[1], true, kNow).has_value());
  BOOST_TEST(!homes.nat->dial(0, home[1], false, kNow));
  BOOST_TEST(homes.nat->dial(3, only, false, kNow).has_value());
}

BOOST_AUTO_TEST_CASE(another_outer_address_is_the_routers) {
  Homes homes({kCgnat, kFirewall, kOpen});
  for (const std::uint32_t peer : {0U, 1U, 2U}) {
    BOOST_TEST_CONTEXT(peer) {
      const base::IpPort before = homes.at(peer);
      const auto own = homes.nat->own(peer);
      homes.nat->change_address(peer);
      BOOST_TEST((homes.at(peer) != before));
      BOOST_TEST((homes.nat->own(peer) == own) == (peer == 0));
      BOOST_TEST((homes.dial(peer, 3)->observed.ip == homes.at(peer).ip));
      BOOST_TEST(!homes.nat->dial(3, before, false, kNow));
    }
  }
  BOOST_TEST(homes.dial(3, 2).has_value());
}

BOOST_AUTO_TEST_SUITE_END()
