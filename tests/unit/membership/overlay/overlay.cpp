// The overlay without a detector: what it does about each event, and says to the detector.
#include <string>

#include <boost/test/unit_test.hpp>

#include "membership/limits.hpp"
#include "tests/unit/membership/transcript.hpp"

using namespace std::chrono_literals;
using namespace starling;
using namespace starling::membership;
using namespace starling::membership::testing;

namespace {

using wire::NeighbourKind;

/// Makes this one a neighbour that dialed and asked.
void add_neighbour(LoneOverlay& peer, std::uint32_t number, std::uint8_t fill) {
  static_cast<void>(peer.link(number, fill, false));
  static_cast<void>(peer.hear(number, NeighbourKind::request));
}

}  // namespace

BOOST_AUTO_TEST_SUITE(overlay_alone)

BOOST_AUTO_TEST_CASE(a_peer_that_misses_neighbours_asks_who_it_dialed_once_that_is_admitted) {
  LoneOverlay peer;
  expect(peer.give(LinkReady{link_of(1), record_of(7), true, "", false}), {"link 1 met 7"});
  expect(peer.give(Admitted{link_of(1)}), {"link 1 is requested", "link 1: request"});
  expect(peer.hear(1, NeighbourKind::accept), {"up 7", "link 1 is neighbour"});
  expect(peer.give(LinkLost{link_of(1), LossReason::reset, ""}),
         {"link 1 is contact", "down 7: reset", "link 1 ended", "accuse 7: reset"});
}

BOOST_AUTO_TEST_CASE(a_link_that_is_not_admitted_is_closed_and_its_peer_banned) {
  LoneOverlay peer;
  static_cast<void>(peer.give(LinkReady{link_of(1), record_of(7), true, "", false}));
  expect(peer.give(EndLink{link_of(1), LossReason::banned}),
         {"link 1 ended", "link 1 closed: misbehaved"});
  expect(peer.give(LinkReady{link_of(2), record_of(7), false, "", false}),
         {"link 2 closed: misbehaved"});
  static_cast<void>(peer.pass(kBanTime));
  expect(peer.give(LinkReady{link_of(3), record_of(7), false, "", false}), {"link 3 met 7"});
}

BOOST_AUTO_TEST_CASE(each_ban_of_a_peer_is_twice_as_long_until_it_is_forgiven) {
  LoneOverlay peer;
  const auto meet = [&](std::uint8_t link) {
    return peer.give(LinkReady{link_of(link), record_of(7), false, "", false});
  };
  const auto ban = [&](std::uint8_t link) {
    static_cast<void>(meet(link));
    static_cast<void>(peer.give(EndLink{link_of(link), LossReason::banned}));
  };
  ban(1);
  static_cast<void>(peer.pass(kBanTime));
  ban(2);
  static_cast<void>(peer.pass(2 * kBanTime - 1ms));
  expect(meet(3), {"link 3 closed: misbehaved"});
  static_cast<void>(peer.pass(1ms));
  expect(meet(4), {"link 4 met 7"});
  static_cast<void>(peer.pass(kBanMemory));
  ban(5);
  static_cast<void>(peer.pass(kBanTime));
  expect(meet(6), {"link 6 met 7"});
}

BOOST_AUTO_TEST_CASE(above_degree_and_slack_all_are_rejected_but_who_asks_urgently) {
  LoneOverlay peer;
  for (std::uint8_t i = 1; i <= 2; ++i) {
    expect(peer.link(i, 10 + i, false), {});
    expect(peer.hear(i, NeighbourKind::request),
           {fmt::format("link {}: accept", i), fmt::format("up {}", 10 + i),
            fmt::format("link {} is neighbour", i)});
  }
  expect(peer.link(3, 13, false), {});
  expect(peer.hear(3, NeighbourKind::request), {"link 3: reject"});
  expect(peer.hear(3, NeighbourKind::urgent_request),
         {"link 3: accept", "up 13", "link 3 is neighbour"});
  expect(peer.link(4, 14, false), {});
  const Lines done = peer.hear(4, NeighbourKind::urgent_request);
  // One of the others makes room, never who came last.
  BOOST_REQUIRE(done.size() == 8U);
  expect({done.begin(), done.begin() + 3}, {"link 4: accept", "up 14", "link 4 is neighbour"});
  const std::string victim = done[3].substr(0, done[3].find(':'));
  BOOST_TEST((done[3] == victim + ": leave" && victim != "link 4"));
  BOOST_TEST(done[7] == victim + " closed: replaced");
}

BOOST_AUTO_TEST_CASE(a_contact_is_closed_after_its_life_and_one_that_is_held_is_not) {
  LoneOverlay peer;
  expect(peer.link(1, 11, false), {});
  expect(peer.link(2, 12, false), {});
  expect(peer.give(Hold{link_of(2), true}), {});
  expect(peer.pass(kContactLifeMax), {"link 1 ended", "link 1 closed: none", "link 2 is contact"});
}

BOOST_AUTO_TEST_CASE(after_this_peer_stood_still_all_links_have_as_much_more_time) {
  LoneOverlay peer;
  expect(peer.link(1, 11, false), {});
  peer.now += 60s;
  expect(peer.give(StoodStill{60s}), {});
  expect(peer.pass(kContactLifeMax - 1ms), {});
  expect(peer.pass(1ms), {"link 1 ended", "link 1 closed: none"});
}

BOOST_AUTO_TEST_CASE(of_two_links_that_both_ends_dialed_that_of_the_smaller_id_stays) {
  LoneOverlay peer;  // 5
  static_cast<void>(peer.link(1, 3, true));
  expect(peer.give(LinkReady{link_of(2), record_of(3), false, "", false}),
         {"link 1 ended", "link 1 closed: duplicate link", "link 2 met 3"});
  static_cast<void>(peer.link(3, 9, true));
  expect(peer.give(LinkReady{link_of(4), record_of(9), false, "", false}), {"link 4 met 9"});
  expect(peer.hear(4, NeighbourKind::request), {});  // its dialer is about to close it
}

BOOST_AUTO_TEST_CASE(members_are_dialed_while_neighbours_are_missing_and_accused_where_nobody_is) {
  LoneOverlay peer;
  BOOST_REQUIRE(peer.table.apply(record_of(7)));
  BOOST_REQUIRE(peer.table.apply(record_of(8)));
  expect(peer.give(MemberBack{id_of(7)}), {"dial host-8:1", "dial host-7:1"});
  expect(peer.give(DialFailed{"host-7:1", "", false, false}), {"accuse 7: refused"});
  expect(peer.give(DialFailed{"host-8:1", "", false, true}), {});  // of this machine's own
  expect(peer.give(LinkReady{link_of(1), record_of(8), false, "", false}), {"link 1 met 8"});
}

BOOST_AUTO_TEST_CASE(a_neighbour_that_fell_silent_is_taken_back_before_others) {
  LoneOverlay peer({.degree = 1});
  add_neighbour(peer, 1, 30);
  for (std::uint8_t fill = 20; fill < 40; ++fill) {
    BOOST_REQUIRE(peer.table.apply(record_of(fill)));
  }
  expect(peer.give(EndLink{link_of(1), LossReason::silent}),
         {"link 1 is contact", "down 30: silent", "link 1 ended", "link 1 closed: silent",
          "dial host-30:1"});
}

BOOST_AUTO_TEST_CASE(who_is_gone_is_not_dialed_at_once) {
  LoneOverlay peer({.degree = 1});
  wire::MemberRecord dead = record_of(7);
  dead.state = wire::MemberState::dead;
  BOOST_REQUIRE(peer.table.apply(dead));
  expect(peer.give(MemberGone{id_of(7), false}), {});
  expect(peer.pass(kRevivalMin / 2), {});
  expect(peer.pass(kRevivalMin / 2), {"dial host-7:1"});
}

BOOST_AUTO_TEST_CASE(a_neighbour_that_is_silent_counts_no_more_once_half_of_all_are) {
  LoneOverlay peer({.degree = 2});
  peer.watch.add(link_of(1), id_of(11), peer.now);
  peer.watch.add(link_of(2), id_of(12), peer.now);
  add_neighbour(peer, 1, 11);
  add_neighbour(peer, 2, 12);
  BOOST_REQUIRE(peer.table.apply(record_of(20)));
  expect(peer.give(MemberBack{id_of(20)}), {});
  peer.now += kSilenceMax;
  expect(peer.give(MemberBack{id_of(20)}), {"dial host-20:1"});
}

BOOST_AUTO_TEST_CASE(who_leaves_closes_all_links_and_takes_no_more) {
  LoneOverlay peer;
  add_neighbour(peer, 1, 11);
  expect(peer.link(2, 12, false), {});
  expect(peer.give(Leave{true}), {"link 1 is contact", "down 11: left", "link 1 ended",
                                  "link 1 closed: done", "link 2 ended", "link 2 closed: done"});
  expect(peer.give(LinkReady{link_of(3), record_of(13), false, "", false}),
         {"link 3 closed: left"});
}

BOOST_AUTO_TEST_SUITE_END()
