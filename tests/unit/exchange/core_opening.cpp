#include <chrono>
#include <string>

#include <boost/test/unit_test.hpp>

#include "exchange/core.hpp"
#include "transcript.hpp"

using namespace std::chrono_literals;
using namespace starling::exchange;
using namespace starling::exchange::test;
using starling::wire::LinkOpen;

namespace {

// One that has taken part in the run from a checkpoint on.
Options member_options() {
  Options options = plain_options();
  options.has_state = true;
  options.samples = 1000;
  options.progress = 0.5;
  return options;
}

Transcript member() { return Transcript(member_options()); }

const LinkOpen kMember{.nonce = 7, .samples = 5000, .progress = 0.5};
const LinkOpen kLatecomer{.nonce = 7, .may_adopt = true};
const LinkOpen kLatecomerAware{.nonce = 7, .samples = 64, .progress = 0.5, .may_adopt = true};

// One that has asked the first of these neighbours for its replica, who will give it; all said so.
Transcript latecomer(const std::string& neighbours, const Options& options = plain_options()) {
  Transcript peer(options);
  for (const char name : neighbours) peer.up(name);
  for (std::size_t i = neighbours.size(); i-- > 0;) peer.link_open(neighbours[i], kMember);
  return peer;
}

// A link with `exchanges` committed at both ends, and the own delta of the next one sent.
Transcript in_exchange(std::uint64_t exchanges) {
  Transcript peer(plain_options());
  peer.open_fresh('a');
  for (std::uint64_t t = 1; t <= exchanges; ++t) {
    peer.encoded();
    peer.delta('a', t);
    peer.committed();
  }
  peer.encoded();
  return peer;
}

LinkOpen link_open_of_session(const Transcript& peer, std::uint64_t committed) {
  return {.nonce = 8, .session = peer.said->session, .committed = {committed}};
}

}  // namespace

BOOST_AUTO_TEST_SUITE(core_opening)

BOOST_AUTO_TEST_CASE(two_ends_at_the_start_send_nothing_but_link_opens) {
  Transcript peer(plain_options());
  TEST_LINES(peer.up('a'), "a: link open, may adopt");
  TEST_LINES(peer.link_open('a', kLatecomer), "a: run open fresh");
  TEST_LINES(peer.delta('a', 1));  // the other end is faster
  TEST_LINES(peer.opened(), "a: run encode 1 at 0");
  TEST_LINES(peer.encoded(), "a: delta 1 of 1", "a: run commit 1 w 0.5", "a: run encode 2 at 2");
}

BOOST_AUTO_TEST_CASE(two_early_deltas_are_one_too_many) {
  Transcript peer(plain_options());
  peer.up('a');
  peer.link_open('a', kLatecomer);
  peer.delta('a', 1);
  TEST_LINES(peer.delta('a', 1), "a: run close", "a: misbehaved");
}

BOOST_AUTO_TEST_CASE(two_ends_with_a_history_swap_keyframes) {
  Transcript peer = member();
  TEST_LINES(peer.up('a'));
  TEST_LINES(peer.link_open('a', kMember), "a: link open", "a: run keyframe");
  TEST_LINES(peer.keyframe('a'));
  TEST_LINES(peer.keyframe_made(), "a: keyframe", "a: run open merge");
  TEST_LINES(peer.opened(), "a: run encode 1 at 0");

  Transcript other = member();
  other.up('a');
  other.link_open('a', kMember);
  TEST_LINES(other.keyframe_made(), "a: keyframe");
  TEST_LINES(other.keyframe('a'), "a: run open merge");
  TEST_LINES(other.keyframe('a'), "a: run close", "a: misbehaved");
}

BOOST_AUTO_TEST_CASE(a_latecomer_is_given_a_replica) {
  Transcript peer = member();
  peer.up('a');
  TEST_LINES(peer.link_open('a', kLatecomer), "a: link open", "a: run keyframe");
  TEST_LINES(peer.keyframe_made(), "a: keyframe", "a: run open give");
  TEST_LINES(peer.opened(), "a: run encode 1 at 0");
}

BOOST_AUTO_TEST_CASE(who_adopts_is_given_the_buffers_and_who_merges_keeps_its_own) {
  Options options = member_options();
  options.buffers = 2;
  const starling::base::Bytes buffers(8, std::byte{3});
  const auto keyframe = [&](const starling::base::Bytes& carried) {
    return Received{peer_named('a'),
                    starling::wire::Keyframe{.samples = 0, .payload = {}, .buffers = carried}};
  };
  Transcript giver(options);
  giver.up('a');
  giver.link_open('a', kLatecomer);
  BOOST_TEST(giver.make_keyframe->with_buffers);
  giver.on(KeyframeMade{giver.make_keyframe->peer, giver.make_keyframe->tag, {}, {}, buffers});
  const auto& sent = std::get<starling::wire::Keyframe>(std::get<Send>(giver.last[0]).message);
  BOOST_TEST((sent.buffers == buffers));

  Transcript merger(options);
  merger.up('a');
  merger.link_open('a', kMember);
  BOOST_TEST(!merger.make_keyframe->with_buffers);
  merger.keyframe_made();
  TEST_LINES(merger.on(keyframe({})), "a: run open merge");

  Options late = plain_options();
  late.buffers = 2;
  Transcript taker(late);
  taker.up('a');
  taker.link_open('a', kMember);
  TEST_LINES(taker.on(keyframe(buffers)), "a: run open adopt");
  BOOST_TEST((taker.open->their_buffers == buffers));
}

BOOST_AUTO_TEST_CASE(a_keyframe_with_buffers_that_are_not_due_is_reported) {
  Options options = plain_options();
  options.buffers = 2;
  for (const std::size_t bytes : {0U, 4U, 12U}) {
    Transcript taker(options);
    taker.up('a');
    taker.link_open('a', kMember);
    const starling::wire::Keyframe bad{
        .samples = 0, .payload = {}, .buffers = starling::base::Bytes(bytes)};
    TEST_LINES(taker.on(Received{peer_named('a'), bad}), "a: misbehaved");
  }
  Options merging = member_options();
  merging.buffers = 2;
  Transcript merger(merging);
  merger.up('a');
  merger.link_open('a', kMember);
  const starling::wire::Keyframe bad{
      .samples = 0, .payload = {}, .buffers = starling::base::Bytes(8)};
  TEST_LINES(merger.on(Received{peer_named('a'), bad}), "a: run close", "a: misbehaved");
}

BOOST_AUTO_TEST_CASE(a_latecomer_adopts_from_its_first_link_and_merges_with_the_others) {
  Transcript peer(plain_options());
  TEST_LINES(peer.up('a'), "a: link open, may adopt");
  TEST_LINES(peer.up('b'));  // it has asked one neighbour: others wait
  TEST_LINES(peer.link_open('b', kMember));
  TEST_LINES(peer.link_open('a', kMember));
  BOOST_TEST(peer.core.adopting());
  TEST_LINES(peer.keyframe('a'), "a: run open adopt");
  TEST_LINES(peer.opened(), "a: run encode 1 at 0", "b: link open", "b: run keyframe");
  BOOST_TEST(!peer.core.adopting());
  BOOST_TEST(!peer.core.may_adopt());
}

BOOST_AUTO_TEST_CASE(a_latecomer_turns_to_the_next_when_its_giver_goes) {
  Transcript peer = latecomer("ab");
  TEST_LINES(peer.down('a'), "b: link open, may adopt");
  TEST_LINES(peer.keyframe('b'), "b: run open adopt");
  TEST_LINES(peer.down('b'), "b: run close");
  TEST_LINES(peer.opened());  // of a link that is gone
  BOOST_TEST(peer.core.may_adopt());
}

BOOST_AUTO_TEST_CASE(who_does_not_give_its_replica_in_time_is_passed_over) {
  Transcript peer = latecomer("ab");
  BOOST_TEST((peer.core.next_deadline() == peer.now + kAskTimeout));
  peer.now += kAskTimeout;
  TEST_LINES(peer.expire(), "notice", "b: link open, may adopt");
  BOOST_TEST(peer.core.adopting());
  TEST_LINES(peer.keyframe('b'), "b: run open adopt");
  TEST_LINES(peer.opened(), "b: run encode 1 at 0", "a: link open");
  BOOST_TEST(!peer.core.adopting());
  TEST_LINES(peer.keyframe('a'));  // of the round that was given up
  TEST_LINES(peer.link_open('a', kMember), "a: run keyframe");
}

BOOST_AUTO_TEST_CASE(who_has_one_neighbour_trains_and_asks_it_again_ever_more_rarely) {
  Transcript peer = latecomer("a");
  starling::base::Duration timeout = kAskTimeout;
  for (std::uint32_t asked = 1; asked < kAsksMax; ++asked) {
    BOOST_TEST(peer.core.adopting());
    peer.now += timeout;
    TEST_LINES(peer.expire(), "notice");
    BOOST_TEST(!peer.core.adopting());
    peer.now += timeout;
    TEST_LINES(peer.expire(), "a: link open, may adopt");
    TEST_LINES(peer.link_open('a', kMember));
    timeout = std::min(2 * timeout, kAskTimeoutMax);
  }
  peer.now += timeout;
  TEST_LINES(peer.expire(), "notice");
  peer.now += timeout;
  TEST_LINES(peer.expire());
  BOOST_TEST(!peer.core.next_deadline().has_value());
  TEST_LINES(peer.keyframe('a'), "a: link open, may adopt");  // it is well again
  peer.down('a');
  TEST_LINES(peer.up('a'), "a: link open, may adopt");
}

BOOST_AUTO_TEST_CASE(a_replica_that_comes_too_late_shows_who_may_be_asked_again) {
  Transcript peer = latecomer("a");
  peer.now += kAskTimeout;
  peer.expire();
  TEST_LINES(peer.keyframe('a'), "a: link open, may adopt");
  TEST_LINES(peer.link_open('a', kMember));
  TEST_LINES(peer.keyframe('a'), "a: run open adopt");
}

// Its next keyframe would be too late again.
BOOST_AUTO_TEST_CASE(who_is_slow_to_give_is_waited_for_longer_the_next_time) {
  Transcript peer = latecomer("a");
  peer.now += kAskTimeout;
  peer.expire();
  peer.keyframe('a');
  peer.link_open('a', kMember);
  peer.now += 2 * kAskTimeout - 1s;
  TEST_LINES(peer.expire());
  TEST_LINES(peer.keyframe('a'), "a: run open adopt");
}

BOOST_AUTO_TEST_CASE(a_keyframe_may_take_long_but_not_trickle) {
  Options options = plain_options();
  const auto adopts_for = [&](std::size_t bytes, starling::base::Duration most) {
    Transcript peer = latecomer("a", options);
    const auto began = peer.now;
    while (peer.core.adopting() && peer.now - began < most) {
      peer.now += 5s;
      TEST_LINES(peer.on(KeyframeArriving{peer_named('a'), bytes}));
      peer.expire();
    }
    return peer.now - began;
  };
  BOOST_TEST((adopts_for(6 * 1024, 3600s) == 3600s));
  BOOST_TEST((adopts_for(1024, 3600s) < 2 * kAskTimeout));
  // At that pace the keyframe of a large model would take a day.
  options.elements = 50'000'000;
  BOOST_TEST((adopts_for(6 * 1024, 3600s) < 2 * kAskTimeout));
  BOOST_TEST((adopts_for(1 << 20, 3600s) == 3600s));
}

BOOST_AUTO_TEST_CASE(who_does_not_even_answer_holds_up_nobody_else) {
  Transcript peer(plain_options());
  TEST_LINES(peer.up('a'), "a: link open, may adopt");
  peer.up('b');
  TEST_LINES(peer.link_open('b', kMember));
  peer.now += kAskTimeout;
  TEST_LINES(peer.expire(), "b: link open, may adopt");
  BOOST_TEST(peer.core.adopting());
  TEST_LINES(peer.link_open('a', kMember));  // two would be adopted: it opens when one is
  TEST_LINES(peer.keyframe('a'));
  TEST_LINES(peer.keyframe('b'), "b: run open adopt");
  TEST_LINES(peer.opened(), "b: run encode 1 at 0", "a: link open");
}

BOOST_AUTO_TEST_CASE(who_answers_late_is_waited_for_as_long_as_others) {
  Transcript peer(plain_options());
  TEST_LINES(peer.up('a'), "a: link open, may adopt");
  peer.now += kAskTimeout;
  TEST_LINES(peer.expire());
  peer.now += 10s;
  TEST_LINES(peer.link_open('a', kMember));
  BOOST_TEST(peer.core.adopting());
  BOOST_TEST((peer.core.next_deadline() == peer.now + kAskTimeout));
  peer.now += kAskTimeout;
  TEST_LINES(peer.expire(), "notice");
  BOOST_TEST(!peer.core.adopting());
}

BOOST_AUTO_TEST_CASE(a_latecomer_gives_its_replica_to_another_only_when_nobody_else_is_asked) {
  Transcript peer(plain_options());
  peer.step(4, 0.5);
  TEST_LINES(peer.up('a'), "a: link open, may adopt");
  peer.up('b');
  TEST_LINES(peer.link_open('b', kLatecomerAware), "b: link open, may adopt");
  for (auto waited = kWaitTimeout; waited < kAskTimeout; waited += kWaitTimeout) {
    peer.now += kWaitTimeout;
    TEST_LINES(peer.expire());
  }
  peer.now += kWaitTimeout;
  TEST_LINES(peer.expire());  // a is passed over
  peer.now += kWaitTimeout;
  TEST_LINES(peer.expire(), "b: link open");
  BOOST_TEST(!peer.core.may_adopt());
  TEST_LINES(peer.link_open('a', kMember), "a: link open");  // too late to adopt: the two merge
}

BOOST_AUTO_TEST_CASE(links_among_latecomers_open_again_after_an_adoption) {
  Transcript peer(plain_options());
  peer.open_fresh('b');
  TEST_LINES(peer.up('a'), "a: link open, may adopt");
  peer.link_open('a', kMember);
  peer.keyframe('a');
  TEST_LINES(peer.opened(), "b: run close", "a: run encode 1 at 0", "b: link open");
  TEST_LINES(peer.delta('b', 1));  // sent before the other end knew
  TEST_LINES(peer.link_open('b', kLatecomerAware), "b: run keyframe");
}

BOOST_AUTO_TEST_CASE(two_latecomers_wait_for_a_while_then_one_gives) {
  Options options = plain_options();
  Transcript peer(options);
  peer.step(4, 0.5);
  TEST_LINES(peer.up('a'), "a: link open, may adopt");
  TEST_LINES(peer.link_open('a', kLatecomerAware));
  peer.now = *peer.core.next_deadline();
  TEST_LINES(peer.expire(), "a: link open");  // it has more samples: 4 steps of 32 against 64
  TEST_LINES(peer.link_open('a', kLatecomerAware), "a: run keyframe");

  Transcript other(options);
  other.step(1, 0.5);
  other.up('a');
  other.link_open('a', kLatecomerAware);
  other.now = *other.core.next_deadline();
  TEST_LINES(other.expire());  // it has fewer: the other end's turn
  TEST_LINES(other.link_open('a', {.nonce = 9, .progress = 0.5}), "a: link open, may adopt");
  BOOST_TEST(other.core.adopting());
}

BOOST_AUTO_TEST_CASE(a_state_that_is_too_old_is_given_up) {
  Options options = member_options();
  options.progress = 0.1;
  Transcript peer(options);
  BOOST_TEST(!peer.core.may_adopt());
  peer.on(Progressed{{0}, 1000, 0.34});
  BOOST_TEST(!peer.core.may_adopt());
  peer.on(Progressed{{0}, 1000, 0.36});
  BOOST_TEST(peer.core.may_adopt());
}

// Before its first step, all that a peer knows of the swarm is what its neighbours say.
BOOST_AUTO_TEST_CASE(who_comes_back_listens_first_and_gives_up_a_state_that_is_too_old) {
  Options options = member_options();
  options.progress = 0.1;
  Transcript peer(options);
  TEST_LINES(peer.up('a'));
  TEST_LINES(peer.link_open('a', kMember), "a: link open, may adopt");
  BOOST_TEST(peer.core.adopting());
  BOOST_TEST(peer.said->progress == kMember.progress);

  Transcript near(member_options());
  TEST_LINES(near.up('a'));
  TEST_LINES(near.link_open('a', kMember), "a: link open", "a: run keyframe");
}

BOOST_AUTO_TEST_CASE(two_that_come_back_do_not_wait_for_each_other_for_long) {
  Transcript peer = member();
  TEST_LINES(peer.up('a'));
  BOOST_REQUIRE((peer.core.next_deadline() == peer.now + kListenTimeout));
  peer.now += kListenTimeout;
  TEST_LINES(peer.expire(), "a: link open");
  BOOST_TEST(!peer.core.next_deadline().has_value());
}

BOOST_AUTO_TEST_CASE(who_has_adopted_is_no_newcomer_to_the_next_latecomer) {
  Transcript peer = latecomer("a");
  peer.keyframe('a');
  peer.opened();
  TEST_LINES(peer.up('b'), "b: link open");
  BOOST_TEST(peer.said->progress == kMember.progress);
  TEST_LINES(peer.link_open('b', kLatecomer), "b: run keyframe");
}

// Its mirrors are of a replica that is gone.
BOOST_AUTO_TEST_CASE(a_link_that_broke_before_an_adoption_opens_anew) {
  Transcript peer(plain_options());
  peer.open_fresh('b');
  peer.down('b');
  TEST_LINES(peer.up('a'), "a: link open, may adopt");
  peer.link_open('a', kMember);
  peer.keyframe('a');
  TEST_LINES(peer.opened(), "b: run close", "a: run encode 1 at 0");
  TEST_LINES(peer.up('b'), "b: link open");
  BOOST_TEST(peer.said->session == 0U);
}

// It had said that it still has the session, and the other end takes it at its word.
BOOST_AUTO_TEST_CASE(a_session_that_was_offered_before_an_adoption_is_not_resumed) {
  Transcript peer(plain_options());
  peer.open_fresh('b');
  peer.down('b');
  TEST_LINES(peer.up('a'), "a: link open, may adopt");
  peer.link_open('a', kMember);
  TEST_LINES(peer.up('b'));
  peer.keyframe('a');
  peer.opened();
  BOOST_TEST(peer.said->session == 0U);
}

BOOST_AUTO_TEST_CASE(one_that_saw_the_start_from_inside_does_not_adopt_any_more) {
  Transcript peer(plain_options());
  peer.open_fresh('a');
  BOOST_TEST(peer.core.may_adopt());
  peer.step(1, 0.03);
  BOOST_TEST(!peer.core.may_adopt());
}

void check_refused_keyframe(starling::base::ErrorCode code, const char* said) {
  Transcript peer = latecomer("a");
  peer.keyframe('a');
  const starling::base::Status bad = starling::base::fail(code, "bad");
  TEST_LINES(peer.opened(bad), "a: run close", said);
  BOOST_TEST(peer.core.may_adopt());
}

BOOST_AUTO_TEST_CASE(a_keyframe_that_does_not_hold_is_reported) {
  check_refused_keyframe(starling::base::ErrorCode::protocol, "a: misbehaved");
}

// The one that gave it may be honest, and captured.
BOOST_AUTO_TEST_CASE(one_whose_keyframe_is_judged_bad_is_turned_away) {
  check_refused_keyframe(starling::base::ErrorCode::judged_bad, "a: turned away");
}

BOOST_AUTO_TEST_CASE(back_within_grace_each_end_sends_what_the_other_lacks) {
  struct Case {
    const char* name;
    std::uint64_t theirs;
    Lines expected;
  };
  const Case cases[] = {
      {"equal", 2, {"a: run resume", "a: delta 3 of 1"}},
      {"the other is behind", 1, {"a: run resume", "a: delta 2 of 1", "a: delta 3 of 1"}},
      {"the other is ahead", 3, {"a: run resume"}},
      {"two apart", 4, {"a: run close", "a: run open fresh"}},
  };
  for (const Case& one : cases) {
    BOOST_TEST_CONTEXT(one.name) {
      Transcript peer = in_exchange(2);
      const auto original = peer.sent->payload;
      TEST_LINES(peer.down('a'), "a: run suspend");
      BOOST_TEST(peer.core.open_links() == 0U);
      TEST_LINES(peer.up('a'), "a: link open, may adopt");
      BOOST_TEST(peer.said->committed.value == 2U);
      BOOST_TEST(peer.link_open('a', link_open_of_session(peer, one.theirs)) == one.expected,
                 boost::test_tools::per_element());
      if (one.theirs == 4) continue;
      BOOST_TEST((peer.sent->payload == original));
      TEST_LINES(peer.delta('a', 3), "a: run commit 3 w 0.5", "a: run encode 4 at 2");
    }
  }
}

BOOST_AUTO_TEST_CASE(a_delta_that_was_not_written_when_the_link_broke_is_written_after) {
  Transcript peer(plain_options());
  peer.open_fresh('a');
  const EncodeJob before = *peer.encode;
  peer.down('a');
  TEST_LINES(peer.encoded());  // too late: the link is broken
  peer.up('a');
  TEST_LINES(peer.link_open('a', link_open_of_session(peer, 0)), "a: run resume",
             "a: run encode 1 at 0");
  BOOST_TEST(peer.encode->tag != before.tag);
  TEST_LINES(peer.encoded(), "a: delta 1 of 1");
}

BOOST_AUTO_TEST_CASE(the_link_open_of_a_link_that_broke_in_a_commit_waits_for_its_outcome) {
  Transcript peer = in_exchange(0);
  TEST_LINES(peer.delta('a', 1), "a: run commit 1 w 0.5", "a: run encode 2 at 2");
  TEST_LINES(peer.down('a'), "a: run suspend");
  TEST_LINES(peer.up('a'));
  TEST_LINES(peer.committed(), "a: link open, may adopt");
  BOOST_TEST(peer.said->committed.value == 1U);
}

BOOST_AUTO_TEST_CASE(one_that_claims_commits_that_cannot_be_is_reported) {
  // The other end has sent t+1, so it has committed t; it cannot be behind that.
  Transcript behind = in_exchange(2);
  behind.delta('a', 3);
  behind.down('a');
  behind.up('a');
  behind.committed();
  TEST_LINES(behind.link_open('a', link_open_of_session(behind, 2)), "a: run resume",
             "a: delta 3 of 1", "a: run encode 4 at 2");
  Transcript ahead(plain_options());
  ahead.open_fresh('a');
  ahead.down('a');
  ahead.up('a');
  TEST_LINES(ahead.link_open('a', link_open_of_session(ahead, 1)), "a: run close", "a: misbehaved");
}

BOOST_AUTO_TEST_CASE(grace_ends_and_the_mirrors_go) {
  Transcript peer = in_exchange(2);
  peer.down('a');
  BOOST_TEST((*peer.core.next_deadline() == peer.now + 30s));
  peer.now += 30s;
  TEST_LINES(peer.expire(), "a: run close");
  BOOST_TEST(peer.core.links().empty());
  BOOST_TEST(peer.core.totals().lost_steps == 1U);
  peer.up('a');
  BOOST_TEST(peer.said->session == 0U);
}

BOOST_AUTO_TEST_CASE(a_link_that_ends_for_good_frees_its_mirrors_at_once) {
  Transcript peer = in_exchange(2);
  TEST_LINES(peer.down('a', true), "a: run close");
  Transcript other = in_exchange(2);
  other.down('a');
  TEST_LINES(other.down('a', true), "a: run close");
}

BOOST_AUTO_TEST_CASE(broken_links_keep_mirrors_in_bounded_number_the_oldest_go) {
  Transcript peer(plain_options());
  for (std::uint32_t i = 0; i < kGraceLinksMax; ++i) {
    const char name = static_cast<char>('a' + i);
    peer.open_fresh(name);
    peer.now += 1s;
    TEST_LINES(peer.down(name), std::string{name} + ": run suspend");
  }
  peer.open_fresh('z');
  TEST_LINES(peer.down('z'), "z: run suspend", "a: run close");
}

BOOST_AUTO_TEST_CASE(mirrors_that_differ_are_set_anew) {
  Transcript peer = in_exchange(0);
  peer.delta('a', 1);
  TEST_LINES(peer.committed(CommitResult::mismatch), "notice", "a: run close",
             "a: link open, may adopt");
  BOOST_TEST(peer.said->session == 0U);
  BOOST_TEST(peer.core.totals().mismatches == 1U);
  TEST_LINES(peer.delta('a', 2));  // of the session that is over
  TEST_LINES(peer.link_open('a', kLatecomer), "a: run open fresh");
  BOOST_TEST(peer.core.totals().reopenings == 1U);
}

BOOST_AUTO_TEST_CASE(mirrors_that_differ_again_and_again_end_the_link) {
  Transcript peer(plain_options());
  peer.open_fresh('a');
  const auto differ = [&](std::uint64_t t) {
    peer.encoded();
    peer.delta('a', t);
    return peer.committed(CommitResult::mismatch);
  };
  for (std::uint32_t round = 1; round < kRoundsMax; ++round) {
    TEST_LINES(differ(1), "notice", "a: run close", "a: link open, may adopt");
    peer.link_open('a', kLatecomer);
    peer.opened();
  }
  TEST_LINES(differ(1), "notice", "a: run close", "a: misbehaved");
}

BOOST_AUTO_TEST_CASE(a_link_that_the_other_end_opens_again_is_answered_but_not_without_end) {
  Transcript peer(plain_options());
  peer.open_fresh('a');
  for (std::uint32_t round = 2; round <= kRoundsMax; ++round) {
    TEST_LINES(peer.link_open('a', kLatecomer), "a: run close", "a: link open, may adopt",
               "a: run open fresh");
    peer.opened();
  }
  TEST_LINES(peer.link_open('a', kLatecomer), "a: run close", "a: misbehaved");
}

BOOST_AUTO_TEST_CASE(a_transport_that_replaces_a_link_breaks_the_old_one) {
  Transcript peer = in_exchange(2);
  TEST_LINES(peer.up('a'), "a: run suspend", "a: link open, may adopt");
  TEST_LINES(peer.link_open('a', link_open_of_session(peer, 2)), "a: run resume",
             "a: delta 3 of 1");
}

BOOST_AUTO_TEST_SUITE_END()
