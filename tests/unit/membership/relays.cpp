// Members without a replica, seen by others and by themselves.
#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

#include <boost/test/unit_test.hpp>

#include "alone.hpp"
#include "membership/limits.hpp"

using namespace std::chrono_literals;
using namespace starling;
using namespace starling::membership;
using namespace starling::membership::testing;

namespace {

using wire::NeighbourKind;
using wire::Reachability;

wire::MemberRecord relay_record(std::uint8_t fill) {
  return record_of(fill, Reachability::reachable, false);
}

/// For many strangers: with shorter heartbeats, other peers would be taken for silent meanwhile.
const Config kSlow{.heartbeat = 60s};
/// Strangers come no faster than they are taken up.
constexpr base::Duration kBetweenStrangers = 20ms;

/// Asks to be neighbours on a link that came in; the answer.
NeighbourKind asked(Alone& peer, const wire::MemberRecord& other, std::uint32_t number) {
  const base::LinkId id{number, 1};
  peer.pass(kBetweenStrangers);
  peer.give(LinkReady{id, other, false, "", false});
  peer.give(Received{id, wire::Neighbour{NeighbourKind::request}});
  return peer.said(id);
}

/// The peers dialed at once or within a second.
std::vector<base::PeerId> dialed(Alone& peer) {
  std::vector<Dial> dials = peer.all<Dial>();
  peer.pass(1s);
  std::ranges::copy(peer.all<Dial>(), std::back_inserter(dials));
  std::vector<base::PeerId> all;
  for (const Dial& dial : dials) {
    if (dial.peer) all.push_back(*dial.peer);
  }
  std::ranges::sort(all);
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(relays)

BOOST_AUTO_TEST_CASE(a_relay_is_a_neighbour_beside_those_that_exchange) {
  Alone peer;
  for (std::uint8_t i = 0; i < kRelaysMax; ++i) {
    BOOST_TEST((asked(peer, relay_record(static_cast<std::uint8_t>(100 + i)), 1U + i) ==
                NeighbourKind::accept));
    BOOST_TEST(peer.all<NeighbourUp>().empty());
  }
  BOOST_TEST((asked(peer, relay_record(120), 50) == NeighbourKind::reject));
  BOOST_TEST(!peer.core.may_find_neighbours());
  BOOST_TEST(peer.core.neighbours(peer.now).size() == kRelaysMax);
  BOOST_TEST((asked(peer, record_of(2), 60) == NeighbourKind::accept));
  BOOST_TEST(peer.all<NeighbourUp>().size() == 1U);
  // It gets rumours and heartbeats as any.
  peer.pass(2s);
  const auto sent = peer.all<Send>();
  BOOST_TEST(std::ranges::any_of(sent, [](const Send& send) {
    return send.link == base::LinkId{1, 1} && std::holds_alternative<wire::Heartbeat>(send.message);
  }));
}

BOOST_AUTO_TEST_CASE(who_may_not_be_dialed_seeks_the_first_relays_and_others_none) {
  for (const auto reach :
       {Reachability::unknown, Reachability::dials_only, Reachability::reachable}) {
    BOOST_TEST_CONTEXT(wire::to_string(reach)) {
      Alone peer;
      const base::LinkId link = peer.neighbour(2, 1, false);
      peer.give(Moved{{"host-5:1"}, reach});
      wire::Gossip gossip;
      for (std::uint8_t i = 0; i < 6; ++i) {
        gossip.members.push_back(relay_record(static_cast<std::uint8_t>(100 + i)));
      }
      peer.give(Received{link, std::move(gossip)});
      auto sought = dialed(peer);
      std::erase(sought, id_of(2));
      std::vector<base::PeerId> expected;
      for (std::uint8_t i = 0; i < kRelaysSought && reach != Reachability::reachable; ++i) {
        expected.push_back(id_of(static_cast<std::uint8_t>(100 + i)));
      }
      BOOST_TEST((sought == expected));
    }
  }
}

BOOST_AUTO_TEST_CASE(a_relay_that_answers_is_asked_and_one_that_is_full_is_let_alone_for_a_while) {
  Alone peer;
  const base::LinkId id{1, 1};
  peer.give(LinkReady{id, relay_record(100), true, "host-100:1", false});
  BOOST_TEST((peer.said(id) == NeighbourKind::request));
  peer.give(Received{id, wire::Neighbour{NeighbourKind::reject}});
  BOOST_TEST(peer.all<Close>().size() == 1U);
  BOOST_TEST(dialed(peer).empty());
}

BOOST_AUTO_TEST_CASE(a_relay_takes_many_but_not_another_relay) {
  Alone relay(false, kSlow);
  BOOST_TEST((asked(relay, relay_record(100), 1000) == NeighbourKind::reject));
  for (std::size_t i = 0; i < kServedMax; ++i) {
    const auto number = static_cast<std::uint32_t>(1 + i);
    BOOST_REQUIRE((asked(relay, numbered_record(number), number) == NeighbourKind::accept));
    BOOST_TEST(relay.all<NeighbourUp>().empty());
  }
  BOOST_TEST((asked(relay, numbered_record(500), 500) == NeighbourKind::reject));
  BOOST_TEST(relay.core.neighbours(relay.now).size() == kServedMax);
}

BOOST_AUTO_TEST_CASE(a_relay_that_is_full_lets_go_of_one_that_can_be_dialed) {
  Alone relay(false, kSlow);
  for (std::size_t i = 0; i < kServedMax; ++i) {
    const auto number = static_cast<std::uint32_t>(1 + i);
    const auto reach = i == 7 ? Reachability::reachable : Reachability::dials_only;
    BOOST_REQUIRE((asked(relay, numbered_record(number, reach), number) == NeighbourKind::accept));
  }
  BOOST_TEST((asked(relay, numbered_record(500), 500) == NeighbourKind::accept));
  const auto closed = relay.all<Close>();
  BOOST_REQUIRE(closed.size() == 1U);
  BOOST_TEST((closed[0].link == base::LinkId{8, 1}));
  BOOST_TEST((asked(relay, numbered_record(501), 501) == NeighbourKind::reject));
}

BOOST_AUTO_TEST_SUITE_END()
