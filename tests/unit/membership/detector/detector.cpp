// The detector without an overlay: what it does about each event, and says to the overlay.
#include <string>

#include <boost/test/unit_test.hpp>

#include "membership/limits.hpp"
#include "tests/unit/membership/transcript.hpp"

using namespace std::chrono_literals;
using namespace starling;
using namespace starling::membership;
using namespace starling::membership::testing;

namespace {

using wire::MemberState;

/// `by` holds this member, of incarnation 1, for suspect or dead.
wire::Gossip claim(std::uint8_t subject, MemberState state, std::uint8_t by) {
  wire::Gossip gossip;
  gossip.claims.push_back({.subject = id_of(subject).prefix(),
                           .by = id_of(by).prefix(),
                           .incarnation = 1,
                           .state = state,
                           .reason = wire::DeathReason::silent});
  return gossip;
}

wire::MemberRecord newer(std::uint8_t fill, std::uint64_t incarnation,
                         MemberState state = MemberState::alive) {
  wire::MemberRecord record = record_of(fill);
  record.incarnation = incarnation;
  record.state = state;
  SimulatedSigner signer(record.id);
  sign(record, signer);
  return record;
}

wire::Gossip gossip_of(wire::MemberRecord record) {
  wire::Gossip gossip;
  gossip.members.push_back(std::move(record));
  return gossip;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(detector_alone)

BOOST_AUTO_TEST_CASE(a_record_is_admitted_and_told_on_all_links_but_its_own) {
  LoneDetector peer;
  expect(peer.give(LinkMet{link_of(1), record_of(7)}),
         {"back 7", "link 1 admitted", "members changed"});
  expect(peer.give(RoleSet{link_of(1), Role::neighbour, false}), {"link 1: beat 1"});
  expect(peer.give(LinkMet{link_of(2), record_of(8)}),
         {"back 8", "link 2 admitted", "link 1: gossip, 8 alive 1", "members changed"});
  expect(peer.hear(2, gossip_of(record_of(7))), {});  // it is known
  expect(peer.hear(2, gossip_of(newer(7, 2))), {"link 1: gossip, 7 alive 2"});
}

BOOST_AUTO_TEST_CASE(a_record_that_its_owner_did_not_sign_ends_the_link_and_the_rest_is_not_read) {
  LoneDetector peer;
  peer.neighbour(1, 7);
  wire::Gossip gossip = gossip_of(newer(8, 1));
  gossip.members[0].name = "another";
  gossip.members.push_back(record_of(9));
  expect(peer.hear(1, gossip), {"end link 1: banned"});
  BOOST_TEST(peer.detector.table().find(id_of(9)) == nullptr);
}

BOOST_AUTO_TEST_CASE(the_neighbour_that_dialed_compares_the_tables_first) {
  LoneDetector peer;
  static_cast<void>(peer.give(LinkMet{link_of(1), record_of(7)}));
  expect(peer.give(RoleSet{link_of(1), Role::neighbour, true}),
         {"link 1: beat 1", "link 1: table"});
}

BOOST_AUTO_TEST_CASE(tables_that_differ_for_three_beats_are_compared) {
  LoneDetector peer;
  peer.neighbour(1, 7);
  for (std::uint32_t beat = 1; beat < kMismatchBeats; ++beat) {
    expect(peer.hear(1, wire::Heartbeat{.sequence = beat, .table_hash = 1, .progress = {}}), {});
  }
  expect(peer.hear(1, wire::Heartbeat{.sequence = 9, .table_hash = 1, .progress = {}}),
         {"link 1: table"});
}

BOOST_AUTO_TEST_CASE(a_silent_neighbour_is_accused_and_later_its_link_ends_and_it_is_dead) {
  LoneDetector peer;
  peer.neighbour(1, 7);
  peer.neighbour(2, 8);
  Lines done;
  for (int i = 0; i < 40 && peer.state_of(7) != MemberState::dead; ++i) {
    static_cast<void>(peer.hear(
        2, wire::Heartbeat{
               .sequence = 1, .table_hash = peer.detector.table().hash(), .progress = {}}));
    for (std::string& line : peer.pass(500ms)) {
      if (line.find("beat") == std::string::npos) done.push_back(std::move(line));
    }
  }
  expect(done, {"link 1: gossip, 7 is suspect by 5", "link 2: gossip, 7 is suspect by 5",
                "end link 1: silent", "gone 7", "link 1: gossip, 7 is dead by 5",
                "link 2: gossip, 7 is dead by 5", "members changed"});
  expect(peer.give(Accuse{id_of(7), wire::DeathReason::refused}), {});
}

BOOST_AUTO_TEST_CASE(an_accusation_is_told_once_and_one_of_a_stranger_is_none) {
  LoneDetector peer;
  peer.neighbour(1, 7);
  expect(peer.give(Accuse{id_of(7), wire::DeathReason::reset}),
         {"link 1: gossip, 7 is suspect by 5"});
  expect(peer.give(Accuse{id_of(7), wire::DeathReason::refused}), {});
  expect(peer.give(Accuse{id_of(99), wire::DeathReason::reset}), {});
}

BOOST_AUTO_TEST_CASE(whom_this_peer_suspects_is_told_on_a_new_link) {
  LoneDetector peer;
  peer.neighbour(1, 7);
  static_cast<void>(peer.give(Accuse{id_of(7), wire::DeathReason::reset}));
  const Lines done = peer.give(LinkMet{link_of(2), record_of(8)});
  BOOST_REQUIRE(done.size() >= 3U);
  expect({done.begin(), done.begin() + 3},
         {"back 8", "link 2: gossip, 7 is suspect by 5", "link 2 admitted"});
}

BOOST_AUTO_TEST_CASE(a_claim_about_this_peer_is_refuted_on_all_links_at_once) {
  LoneDetector peer;
  peer.neighbour(1, 7);
  peer.neighbour(2, 8);
  expect(peer.hear(1, claim(5, MemberState::suspect, 9)),
         {"link 1: gossip, 5 alive 2", "link 2: gossip, 5 alive 2"});
  expect(peer.hear(2, claim(5, MemberState::suspect, 9)), {});  // it is refuted already
}

BOOST_AUTO_TEST_CASE(a_suspicion_ends_where_a_newer_record_comes) {
  LoneDetector peer;
  peer.neighbour(1, 7);
  peer.neighbour(2, 8);
  expect(peer.hear(2, claim(7, MemberState::suspect, 8)), {"link 1: gossip, 7 is suspect by 8"});
  BOOST_TEST((peer.state_of(7) == MemberState::suspect));
  expect(peer.hear(1, gossip_of(newer(7, 2))), {"link 2: gossip, 7 alive 2"});
  BOOST_TEST((peer.state_of(7) == MemberState::alive));
}

BOOST_AUTO_TEST_CASE(another_peers_word_that_a_member_is_dead_only_starts_a_suspicion) {
  LoneDetector peer;
  peer.neighbour(1, 7);
  peer.neighbour(2, 8);
  wire::MemberRecord dead = record_of(8);
  dead.state = MemberState::dead;
  expect(peer.hear(1, gossip_of(dead)), {"link 2: gossip, 8 is suspect by 7"});
  BOOST_TEST((peer.state_of(8) == MemberState::suspect));
}

BOOST_AUTO_TEST_CASE(a_member_that_left_is_gone_at_once_and_one_that_died_twice_is_back_later) {
  LoneDetector peer;
  peer.neighbour(1, 7);
  expect(peer.hear(1, gossip_of(newer(8, 1))), {"back 8", "members changed"});
  expect(peer.hear(1, gossip_of(newer(8, 2, MemberState::left))),
         {"gone 8, left", "members changed"});
  static_cast<void>(peer.hear(1, gossip_of(newer(9, 1))));
  static_cast<void>(peer.hear(1, gossip_of(newer(10, 1))));
  static_cast<void>(peer.hear(1, gossip_of(newer(11, 1))));
  for (std::uint64_t life = 1; life <= 2; ++life) {
    static_cast<void>(peer.give(Accuse{id_of(9), wire::DeathReason::reset}));
    while (peer.state_of(9) != MemberState::dead) {
      static_cast<void>(peer.give(Heard{link_of(1), false}));
      static_cast<void>(peer.pass(100ms));
    }
    const Lines done = peer.hear(1, gossip_of(newer(9, life + 1)));
    expect(done, life == 1 ? Lines{"back 9", "members changed"} : Lines{});
  }
  Lines done;
  for (base::Duration passed{}; passed < kHoldMin; passed += 100ms) {
    static_cast<void>(peer.give(Heard{link_of(1), false}));
    for (std::string& line : peer.pass(100ms)) {
      if (line.find("beat") == std::string::npos) done.push_back(std::move(line));
    }
  }
  expect(done, {"back 9", "link 1: gossip, 9 alive 3", "members changed"});
}

BOOST_AUTO_TEST_CASE(deaths_of_half_the_swarm_hold_nobody_back) {
  LoneDetector peer;
  peer.neighbour(1, 7);
  for (std::uint64_t life = 1; life <= 4; ++life) {
    for (const std::uint8_t fill : {8, 9, 10}) {
      expect(peer.hear(1, gossip_of(newer(fill, life))),
             {fmt::format("back {}", int{fill}), "members changed"});
    }
    for (const std::uint8_t fill : {8, 9, 10}) {
      static_cast<void>(peer.give(Accuse{id_of(fill), wire::DeathReason::reset}));
    }
    while (peer.state_of(10) != MemberState::dead) {
      static_cast<void>(peer.give(Heard{link_of(1), false}));
      static_cast<void>(peer.pass(100ms));
    }
  }
}

BOOST_AUTO_TEST_CASE(after_this_peer_stood_still_silence_says_nothing) {
  LoneDetector peer;
  peer.neighbour(1, 7);
  peer.now += kSilenceMax;
  expect(peer.give(StoodStill{kSilenceMax}), {});
  expect(peer.pass(0s), {"link 1: beat 2"});
  BOOST_TEST((peer.state_of(7) == MemberState::alive));
}

BOOST_AUTO_TEST_CASE(a_peer_whose_timers_run_late_waits_longer_before_it_accuses) {
  const auto accuses_after = [](bool late) {
    LoneDetector peer;
    peer.neighbour(1, 7);
    if (late) static_cast<void>(peer.give(RanLate{3s}));
    const base::Time begin = peer.now;
    while (peer.state_of(7) == MemberState::alive) static_cast<void>(peer.pass(10ms));
    return peer.now - begin;
  };
  BOOST_TEST((accuses_after(true) > accuses_after(false)));
}

BOOST_AUTO_TEST_CASE(who_leaves_tells_its_last_counter_and_that_it_left) {
  LoneDetector peer;
  peer.neighbour(1, 7);
  static_cast<void>(peer.give(LinkMet{link_of(2), record_of(8)}));
  expect(peer.give(Leave{}), {"link 1: beat 2", "link 1: gossip, 5 left 2", "members changed"});
  expect(peer.give(Leave{}), {});
}

BOOST_AUTO_TEST_SUITE_END()
