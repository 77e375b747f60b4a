// Requests for a place among a peer's neighbours when there is little room, and which peer gives
// way.
#include <algorithm>
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

constexpr std::uint8_t kFirst = 10;
constexpr std::uint8_t kLast = 40;

/// News of these members.
wire::Gossip gossip_of(std::uint8_t first, std::uint8_t last) {
  wire::Gossip gossip;
  for (std::uint8_t fill = first; fill <= last; ++fill) gossip.members.push_back(record_of(fill));
  return gossip;
}

/// A neighbour tells how many links these have, and how many samples a second they train.
void tell_links(Alone& peer, base::LinkId from, std::uint8_t first, std::uint8_t last,
                std::uint32_t links, float rate = 0) {
  wire::Heartbeat beat{.sequence = 1, .progress = {}};
  for (std::uint8_t fill = first; fill <= last; ++fill) {
    beat.progress.push_back(
        {.id_prefix = id_of(fill).prefix(), .samples = 1, .rate = rate, .links = links});
  }
  peer.give(Received{from, std::move(beat)});
}

/// Rejections by others, one each, until one of them is asked urgently; 0: none is.
std::uint32_t rejections_until_urgent(bool lonely, std::uint32_t links, float rate = 0) {
  Alone peer;
  const base::LinkId teller = peer.neighbour(2, 1, false);
  peer.give(Received{teller, gossip_of(kFirst, kLast)});
  tell_links(peer, teller, kFirst, kLast, links, rate);
  if (lonely) peer.give(LinkLost{teller, LossReason::closed});
  std::uint32_t rejections = 0;
  for (std::uint8_t fill = kFirst; fill <= kLast; ++fill) {
    const base::LinkId link{fill, 1};
    peer.give(LinkReady{link, record_of(fill), true, "host-" + std::to_string(fill) + ":1", false});
    peer.give(Received{link, wire::Neighbour{NeighbourKind::reject}});
    ++rejections;
    if (peer.said(link) == NeighbourKind::urgent_request) return rejections;
  }
  return 0;
}

bool names(const wire::Gossip& gossip, const base::PeerId& peer) {
  return std::ranges::any_of(gossip.members,
                             [&](const wire::MemberRecord& record) { return record.id == peer; });
}

}  // namespace

BOOST_AUTO_TEST_SUITE(places)

BOOST_AUTO_TEST_CASE(one_that_is_full_is_asked_urgently_after_many_others_unless_there_is_none) {
  const std::uint32_t degree = Config{}.degree;
  BOOST_TEST(rejections_until_urgent(false, degree) == kRejectionsBeforeUrgent);
  BOOST_TEST(rejections_until_urgent(false, degree + kDegreeSlack) == kRejectionsBeforeFull);
  BOOST_TEST(rejections_until_urgent(true, degree + kDegreeSlack) == kRejectionsBeforeUrgent);
}

// Its neighbour would seek another one in turn, and each new link costs keyframes.
BOOST_AUTO_TEST_CASE(
    in_a_swarm_that_trains_one_that_is_full_is_asked_urgently_by_the_lonely_alone) {
  const std::uint32_t degree = Config{}.degree;
  BOOST_TEST(rejections_until_urgent(false, degree + kDegreeSlack, 1) == 0U);
  BOOST_TEST(rejections_until_urgent(false, degree, 1) == kRejectionsBeforeUrgent);
  BOOST_TEST(rejections_until_urgent(true, degree + kDegreeSlack, 1) == kRejectionsBeforeUrgent);
}

BOOST_AUTO_TEST_CASE(who_seeks_is_sought_first_and_who_is_full_last) {
  const std::uint32_t degree = Config{}.degree;
  for (std::uint8_t seeker = 30; seeker < 36; ++seeker) {
    Alone peer;
    std::vector<base::LinkId> links;
    for (std::uint8_t fill = kFirst; fill < kFirst + degree; ++fill) {
      links.push_back(peer.neighbour(fill, fill, false));
    }
    const wire::Gossip gossip = gossip_of(30, 35);
    peer.give(Received{links[0], gossip});
    BOOST_REQUIRE(peer.all<Dial>().empty());
    const auto full = static_cast<std::uint8_t>(seeker == 35 ? 30 : seeker + 1);
    for (std::uint8_t fill = 30; fill < 36; ++fill) {
      const std::uint32_t more = fill == full ? kDegreeSlack : 0;
      tell_links(peer, links[0], fill, fill, fill == seeker ? degree - 1 : degree + more);
    }
    std::vector<base::PeerId> sought;
    for (const base::LinkId link : links) {
      peer.give(LinkLost{link, LossReason::closed});
      for (const Dial& dial : peer.all<Dial>()) {
        if (dial.peer && names(gossip, *dial.peer)) sought.push_back(*dial.peer);
      }
    }
    BOOST_REQUIRE(!sought.empty());
    BOOST_TEST((sought.front() == id_of(seeker)));
    BOOST_TEST(std::ranges::count(sought, id_of(full)) == 0);
  }
}

BOOST_AUTO_TEST_CASE(who_only_dials_is_introduced_by_those_that_reject_it) {
  for (const auto reach : {wire::Reachability::dials_only, wire::Reachability::reachable}) {
    Alone peer;
    const base::LinkId link{2, 1};
    const base::LinkId teller = peer.neighbour(2, 1, false);
    peer.give(Moved{{"host-5:1"}, reach});
    peer.give(Received{teller, gossip_of(20, 25)});
    peer.give(LinkReady{link, record_of(20), true, "host-20:1", false});
    BOOST_REQUIRE((peer.said(link) == NeighbourKind::request));
    peer.give(Received{link, wire::Neighbour{NeighbourKind::reject}});
    const auto closed = [&] {
      return std::ranges::any_of(peer.all<Close>(),
                                 [&](const Close& close) { return close.link == link; });
    };
    BOOST_TEST(closed() == (reach == wire::Reachability::reachable));
    if (reach == wire::Reachability::reachable) continue;
    peer.pass(2 * kContactLife);
    BOOST_TEST(closed());
  }
}

BOOST_AUTO_TEST_CASE(who_only_dials_and_has_no_neighbour_asks_urgently_at_once) {
  Alone peer;
  const base::LinkId teller = peer.neighbour(2, 1, false);
  peer.give(Moved{{"host-5:1"}, wire::Reachability::dials_only});
  peer.give(Received{teller, gossip_of(20, 25)});
  peer.give(LinkLost{teller, LossReason::closed});
  const base::LinkId link{2, 1};
  peer.give(LinkReady{link, record_of(20), true, "host-20:1", false});
  peer.give(Received{link, wire::Neighbour{NeighbourKind::reject}});
  BOOST_TEST((peer.said(link) == NeighbourKind::urgent_request));
}

BOOST_AUTO_TEST_CASE(who_would_be_left_alone_is_kept) {
  const std::uint32_t degree = Config{}.degree;
  for (std::uint8_t other = kFirst; other <= kFirst + degree; ++other) {
    Alone peer;
    std::uint32_t number = 0;
    base::LinkId link;
    for (std::uint8_t fill = kFirst; fill <= kFirst + degree; ++fill) {
      link = peer.link(fill, ++number, false, false);
      peer.give(Received{link, wire::Neighbour{NeighbourKind::urgent_request}});
      tell_links(peer, link, fill, fill, fill == other ? 2 : 1);
    }
    const base::LinkId more = peer.link(kLast, ++number, false, false);
    peer.give(Received{more, wire::Neighbour{NeighbourKind::urgent_request}});
    const auto downs = peer.all<NeighbourDown>();
    BOOST_REQUIRE(downs.size() == 1U);
    BOOST_TEST((downs[0].peer == id_of(other)));
  }
}

BOOST_AUTO_TEST_CASE(who_has_more_than_it_seeks_gives_way) {
  const std::uint32_t degree = Config{}.degree;
  for (std::uint8_t rich = kFirst; rich <= kFirst + degree; ++rich) {
    Alone peer;
    std::uint32_t number = 0;
    for (std::uint8_t fill = kFirst; fill < kFirst + degree; ++fill) {
      peer.neighbour(fill, ++number, false);
    }
    const auto last = static_cast<std::uint8_t>(kFirst + degree);
    const base::LinkId slack = peer.link(last, ++number, false, false);
    peer.give(Received{slack, wire::Neighbour{NeighbourKind::urgent_request}});
    BOOST_REQUIRE(peer.core.neighbours(peer.now).size() == degree + kDegreeSlack);
    for (std::uint8_t fill = kFirst; fill <= last; ++fill) {
      tell_links(peer, slack, fill, fill, fill == rich ? degree + 1 : degree);
    }
    const base::LinkId more = peer.link(kLast, ++number, false, false);
    peer.give(Received{more, wire::Neighbour{NeighbourKind::urgent_request}});
    const auto downs = peer.all<NeighbourDown>();
    BOOST_REQUIRE(downs.size() == 1U);
    BOOST_TEST((downs[0].peer == id_of(rich)));
  }
}

BOOST_AUTO_TEST_CASE(who_only_dials_asks_those_that_rejected_it_no_sooner_than_others) {
  Alone peer;
  const base::LinkId link = peer.neighbour(2, 1, false);
  peer.give(Moved{{"host-5:1"}, wire::Reachability::dials_only});
  wire::Gossip gossip{.members = {record_of(20, wire::Reachability::reachable)}, .claims = {}};
  for (std::uint8_t fill = 30; fill < 36; ++fill) {
    gossip.members.push_back(record_of(fill, wire::Reachability::dials_only));
  }
  const auto wants = [&](std::uint8_t fill) {
    return std::ranges::any_of(peer.all<Dial>(),
                               [&](const Dial& dial) { return dial.peer == id_of(fill); });
  };
  peer.give(Received{link, gossip});
  BOOST_TEST(wants(20));  // and two others, as three are missing
  peer.give(LinkReady{{2, 1}, gossip.members[0], true, "host-20:1", false});
  peer.give(Received{{2, 1}, wire::Neighbour{NeighbourKind::reject}});
  int others = 0;
  for (int i = 0; i < 50 && others == 0; ++i) {
    peer.pass(100ms);
    for (std::uint8_t fill = 30; fill < 36; ++fill) others += wants(fill) ? 1 : 0;
    if (others == 0) BOOST_TEST(!wants(20));
  }
  BOOST_TEST(others > 0);
}

BOOST_AUTO_TEST_SUITE_END()
