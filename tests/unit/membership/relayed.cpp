// Links over a circuit, and what reach has to do with a peer's record and links.
#include <algorithm>

#include <boost/test/unit_test.hpp>

#include "alone.hpp"
#include "membership/limits.hpp"

using namespace std::chrono_literals;
using namespace starling;
using namespace starling::membership;
using namespace starling::membership::testing;

BOOST_AUTO_TEST_SUITE(relayed)

BOOST_AUTO_TEST_CASE(a_link_that_breaks_with_its_relay_accuses_nobody_and_is_wanted_back) {
  Alone peer;
  peer.give(LinkLost{peer.neighbour(2, 1, false), LossReason::reset});
  BOOST_TEST((peer.state_of(2) == wire::MemberState::suspect));
  const base::LinkId link = peer.neighbour(3, 2, true);
  peer.give(LinkLost{link, LossReason::relay});
  BOOST_TEST((peer.state_of(3) == wire::MemberState::alive));
  const auto downs = peer.all<NeighbourDown>();
  BOOST_REQUIRE(downs.size() == 1U);
  BOOST_TEST(!is_for_good(downs[0].reason));  // the mirrors are kept
  peer.pass(1s);
  BOOST_TEST(std::ranges::any_of(peer.all<Dial>(),
                                 [](const Dial& dial) { return dial.peer == id_of(3); }));
}

BOOST_AUTO_TEST_CASE(a_direct_link_takes_over_from_one_over_a_circuit) {
  Alone peer;
  const base::LinkId old = peer.neighbour(2, 1, true);
  const base::LinkId direct = peer.link(2, 2, true, false);
  const auto closed = peer.all<Close>();
  BOOST_REQUIRE(closed.size() == 1U);
  BOOST_TEST((closed[0].link == old));
  BOOST_TEST((peer.said(direct) == wire::NeighbourKind::request));
  peer.give(Received{direct, wire::Neighbour{wire::NeighbourKind::accept}});
  BOOST_TEST(peer.all<NeighbourUp>().size() == 1U);
}

BOOST_AUTO_TEST_CASE(the_other_end_of_it_moves_when_it_is_asked_to) {
  Alone peer;
  const base::LinkId old = peer.neighbour(2, 1, true);
  const base::LinkId direct = peer.link(2, 2, false, false);
  BOOST_TEST(peer.all<Close>().empty());
  peer.give(Received{direct, wire::Neighbour{wire::NeighbourKind::request}});
  const auto closed = peer.all<Close>();
  BOOST_REQUIRE(closed.size() == 1U);
  BOOST_TEST((closed[0].link == old));
  BOOST_TEST(peer.all<NeighbourUp>().size() == 1U);
}

BOOST_AUTO_TEST_CASE(a_link_that_is_held_is_not_closed_as_unused) {
  for (const bool held : {false, true}) {
    Alone peer;
    const base::LinkId link = peer.link(2, 1, false, false);
    if (held) peer.give(Hold{link, true});
    peer.pass(kContactLifeMax);
    BOOST_TEST(peer.all<Close>().size() == (held ? 0U : 1U));
    peer.give(Hold{link, false});
    peer.pass(kContactLifeMax);
    BOOST_TEST(peer.all<Close>().size() == (held ? 1U : 0U));
  }
}

BOOST_AUTO_TEST_CASE(a_neighbour_that_is_replaced_keeps_the_link_that_carries_circuits) {
  for (const bool held : {false, true}) {
    Alone peer;
    std::uint8_t next = 20;
    const auto one_more = [&] {
      const base::LinkId link = peer.link(next, next, false, false);
      ++next;
      if (held) peer.give(Hold{link, true});
      peer.give(Received{link, wire::Neighbour{wire::NeighbourKind::urgent_request}});
    };
    while (peer.all<NeighbourDown>().empty()) one_more();
    const NeighbourDown down = peer.all<NeighbourDown>()[0];
    BOOST_TEST((down.reason == LossReason::replaced));
    BOOST_TEST(peer.all<Close>().size() == (held ? 0U : 1U));
    BOOST_TEST((peer.said(down.link) == wire::NeighbourKind::leave));
  }
}

BOOST_AUTO_TEST_CASE(a_dial_names_the_member_and_its_failure_is_no_news_of_one_that_only_dials) {
  for (const auto reach : {wire::Reachability::reachable, wire::Reachability::dials_only}) {
    Alone peer;
    const base::LinkId link = peer.link(2, 1, false, false);
    peer.give(Received{link, wire::Gossip{{record_of(3, reach)}, {}}});
    const auto dials = peer.all<Dial>();
    BOOST_REQUIRE(dials.size() == 1U);
    BOOST_TEST((dials[0].peer == id_of(3)));
    peer.give(DialFailed{dials[0].address, "no answer"});
    BOOST_TEST((peer.state_of(3) == wire::MemberState::suspect) ==
               (reach == wire::Reachability::reachable));
  }
}

// It may find out that it only dials, where others do.
BOOST_AUTO_TEST_CASE(
    a_failed_dial_is_news_of_one_that_does_not_know_only_where_all_others_are_dialed) {
  using wire::Reachability;
  for (const auto other : {Reachability::reachable, Reachability::dials_only}) {
    Alone peer;
    const base::LinkId link = peer.link(2, 1, false, false);
    peer.give(Received{link, wire::Gossip{{record_of(3, Reachability::unknown)}, {}}});
    const auto dials = peer.all<Dial>();
    BOOST_REQUIRE(dials.size() == 1U);
    peer.give(Received{link, wire::Gossip{{record_of(4, other)}, {}}});
    peer.give(DialFailed{dials[0].address, "no answer"});
    BOOST_TEST((peer.state_of(3) == wire::MemberState::suspect) ==
               (other == Reachability::reachable));
  }
}

BOOST_AUTO_TEST_CASE(who_only_stays_for_others_dials_nobody) {
  for (const bool stays : {false, true}) {
    Alone peer;
    const base::LinkId link = peer.link(2, 1, false, false);
    if (stays) peer.give(Stay{});
    peer.give(Received{link, wire::Gossip{{record_of(3, wire::Reachability::reachable)}, {}}});
    peer.give(Found{id_of(4), "host-4:1"});
    peer.pass(60s);
    BOOST_TEST(peer.all<Dial>().empty() == stays);
  }
}

BOOST_AUTO_TEST_CASE(a_dial_that_could_not_leave_this_machine_is_no_news_of_anybody) {
  Alone peer;
  const base::LinkId link = peer.link(2, 1, false, false);
  peer.give(Received{link, wire::Gossip{{record_of(3, wire::Reachability::reachable)}, {}}});
  const auto dials = peer.all<Dial>();
  BOOST_REQUIRE(dials.size() == 1U);
  peer.give(DialFailed{.address = dials[0].address, .text = "no network", .no_route = true});
  BOOST_TEST((peer.state_of(3) == wire::MemberState::alive));
}

BOOST_AUTO_TEST_CASE(one_that_has_this_peer_s_own_address_is_wanted_without_one) {
  Alone peer;
  const base::LinkId link = peer.link(2, 1, false, false);
  peer.give(Received{link, wire::Gossip{{record_of(3, wire::Reachability::dials_only)}, {}}});
  BOOST_REQUIRE(peer.all<Dial>().size() == 1U);
  peer.give(DialFailed{peer.all<Dial>()[0].address, "that is this peer", true});
  peer.pass(10s);
  BOOST_TEST(std::ranges::any_of(peer.all<Dial>(), [](const Dial& dial) {
    return dial.peer == id_of(3) && dial.address == id_of(3).hex();
  }));
}

BOOST_AUTO_TEST_CASE(what_reach_finds_out_is_told_and_signed) {
  Alone peer;
  peer.neighbour(2, 1, false);
  peer.give(Moved{{"8.8.8.8:1", "host-5:1"}, wire::Reachability::reachable});
  const wire::MemberRecord& self = peer.core.self();
  BOOST_TEST((self.reach == wire::Reachability::reachable));
  BOOST_TEST(self.addresses.front() == "8.8.8.8:1");
  SimulatedSigner signer(self.id);
  BOOST_TEST(is_genuine(self, signer));
  wire::MemberRecord changed = self;
  changed.reach = wire::Reachability::dials_only;
  BOOST_TEST(!is_genuine(changed, signer));
  const auto incarnation = self.incarnation;
  peer.give(Moved{{"8.8.8.8:1", "host-5:1"}, wire::Reachability::reachable});
  BOOST_TEST(peer.core.self().incarnation == incarnation);  // no news
}

BOOST_AUTO_TEST_SUITE_END()
