#include "exchange/settling.hpp"

#include <chrono>

#include <boost/test/unit_test.hpp>

#include "transcript.hpp"

using namespace std::chrono_literals;
using namespace starling;
using namespace starling::exchange;
using namespace starling::exchange::test;

namespace {

/// Both ends have said that they agree, and have committed it.
OpenState settled_state(std::uint64_t id) {
  return {{.id = id, .both_settling = true, .settled = true}};
}

struct SettlingAlone {
  Link& add(char peer) {
    Outbox none;
    return links.begin_opening(peer_named(peer), now, none);
  }
  void begin() { static_cast<void>(settling.on(Phase::settling, now)); }
  Lines look() {
    Outbox out;
    settling.look(now, out);
    return lines_of(out);
  }
  Lines expire() {
    Outbox out;
    settling.expire(now, out);
    settling.look(now, out);
    return lines_of(out);
  }
  [[nodiscard]] std::optional<base::Time> due() const {
    base::Earliest first;
    settling.visit_timers(
        [&](std::string_view, std::optional<base::Time> at, base::Duration) { first.add(at); });
    return first.value();
  }

  base::Time now{};
  Links links{30s};
  Tree tree{7, 3s};
  Settling settling{10s, links, tree};
};

/// `a` has settled, and `b` is the link that is looked at.
struct OneIsLate : SettlingAlone {
  OneIsLate() : late(add('b')) {
    add('a').state = settled_state(1);
    late.state = OpenState{{.id = 2}};
    late.settles = true;
  }
  /// b commits an exchange, and is as far apart afterwards.
  void commit(double apart) {
    ++late.counters.exchanges;
    late.apart = apart;
  }

  Link& late;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(settling)

BOOST_AUTO_TEST_CASE(it_begins_once_and_never_before_its_phase) {
  SettlingAlone peer;
  TEST_LINES(peer.look());
  BOOST_TEST(!peer.settling.on(Phase::training, peer.now));
  BOOST_TEST(!peer.settling.has_begun());
  BOOST_TEST(peer.settling.on(Phase::settling, peer.now));
  BOOST_TEST(!peer.settling.on(Phase::settling, peer.now));
  BOOST_TEST(peer.settling.has_begun());
  BOOST_TEST(!peer.settling.on(Phase::done, peer.now));
}

BOOST_AUTO_TEST_CASE(it_ends_once_when_every_link_has_settled) {
  SettlingAlone peer;
  peer.add('a').state = settled_state(1);
  Link& slow = peer.add('b');
  slow.state = OpenState{{.id = 2}};
  peer.begin();
  TEST_LINES(peer.look());
  slow.open()->session.settled = true;
  TEST_LINES(peer.look(), "settled");
  BOOST_TEST(peer.settling.is_over());
  TEST_LINES(peer.look());
}

BOOST_AUTO_TEST_CASE(a_link_that_opens_is_waited_for_and_one_in_grace_is_not) {
  SettlingAlone peer;
  Link& link = peer.add('a');
  peer.begin();
  TEST_LINES(peer.look());
  link.state = BrokenState{{.id = 1}, peer.now + 30s};
  TEST_LINES(peer.look(), "settled without a: its link was lost");
}

BOOST_AUTO_TEST_CASE(who_has_no_open_link_waits_while_company_is_expected) {
  SettlingAlone peer;
  peer.add('a').state = BrokenState{{.id = 1}, peer.now + 30s};
  peer.settling.on(Company{true});
  peer.begin();
  TEST_LINES(peer.look());
  peer.settling.on(Company{false});
  TEST_LINES(peer.look(), "settled without a: its link was lost");
}

BOOST_AUTO_TEST_CASE(who_has_agreed_and_lost_all_links_waits_for_no_more_than_the_late) {
  SettlingAlone peer;
  Link& link = peer.add('a');
  link.state = settled_state(1);
  peer.add('b');
  peer.settling.on(Company{true});
  peer.begin();
  TEST_LINES(peer.look());
  Outbox none;
  for (const char name : {'a', 'b'}) peer.links.forget(peer.links.find(peer_named(name)), none);
  TEST_LINES(peer.look());
  BOOST_TEST((peer.due() == peer.now + kLateAfter));
  peer.now += kLateAfter;
  TEST_LINES(peer.look(), "settled");
}

BOOST_AUTO_TEST_CASE(it_ends_at_its_timeout_which_then_does_not_run_any_more) {
  SettlingAlone peer;
  peer.add('a');
  peer.begin();
  TEST_LINES(peer.look());
  BOOST_TEST((peer.due() == peer.now + 10s));
  peer.now += 9s;
  TEST_LINES(peer.expire());
  peer.now += 1s;
  TEST_LINES(peer.expire(), "unsettled without a: its link does not open");
  BOOST_TEST(!peer.due().has_value());
  TEST_LINES(peer.expire());
}

BOOST_AUTO_TEST_CASE(who_commits_nothing_is_left_out_when_the_others_have_settled) {
  OneIsLate peer;
  peer.begin();
  TEST_LINES(peer.look());
  BOOST_TEST((peer.due() == peer.now + kLateAfter));
  peer.now += kLateAfter - 1ms;
  TEST_LINES(peer.expire());
  peer.now += 1ms;
  TEST_LINES(peer.expire(), "settled without b: it commits no exchange");
  BOOST_TEST(!peer.due().has_value());
}

BOOST_AUTO_TEST_CASE(nobody_is_left_out_before_anybody_has_agreed) {
  OneIsLate peer;
  Link& other = peer.links.find(peer_named('a'))->second;
  other.state = OpenState{{.id = 1}};
  peer.begin();
  TEST_LINES(peer.look());
  peer.now += 9s;
  TEST_LINES(peer.look());
  other.state = settled_state(1);
  TEST_LINES(peer.look());
  BOOST_TEST((peer.due() == peer.now + 1s));  // the time that is left
}

BOOST_AUTO_TEST_CASE(who_comes_nearer_is_waited_for_and_who_stays_apart_is_not) {
  OneIsLate peer;
  peer.begin();
  double apart = 20;
  for (int i = 0; i < 4; ++i, apart /= 2) {
    peer.commit(apart);
    TEST_LINES(peer.look());
    BOOST_TEST((peer.due() == peer.now + kLateAfter));
    peer.now += kLateAfter - 1ms;
  }
  peer.commit(2.4);
  TEST_LINES(peer.look());
  peer.now += 1ms;
  TEST_LINES(peer.look(), "settled without b: it stays apart");
}

BOOST_AUTO_TEST_CASE(who_says_that_it_is_apart_though_it_is_near_is_left_out) {
  OneIsLate peer;
  peer.begin();
  peer.commit(0.9);
  TEST_LINES(peer.look());
  for (int i = 0; i < 3; ++i) {
    peer.now += kLateAfter / 4;
    peer.commit(0.5 / (i + 1));  // near is near: this is no way to go on
    TEST_LINES(peer.look());
  }
  peer.now += kLateAfter / 4;
  TEST_LINES(peer.look(), "settled without b: it does not agree, though it is near");
}

BOOST_AUTO_TEST_CASE(who_still_trains_is_waited_for_as_long_as_it_commits) {
  OneIsLate peer;
  peer.late.settles = false;
  peer.begin();
  for (int i = 0; i < 4; ++i) {
    peer.commit(10);
    TEST_LINES(peer.look());
    peer.now += kLateAfter - 1ms;
  }
  peer.now += 1ms;
  TEST_LINES(peer.look(), "settled without b: it commits no exchange");
}

BOOST_AUTO_TEST_CASE(a_link_has_more_time_if_it_is_slow_as_a_rule_or_its_upload_is_limited) {
  OneIsLate slow;
  slow.late.between_commits.add(1.0);
  slow.late.line = {.bandwidth = 1e6, .bytes = 500'000};
  BOOST_TEST((patience_with(slow.late) == 3s));
  slow.begin();
  TEST_LINES(slow.look());
  BOOST_TEST((slow.due() == slow.now + kLateAfter + 3s));

  OneIsLate limited;
  limited.late.held_for = 4s;
  limited.begin();
  TEST_LINES(limited.look());
  BOOST_TEST((limited.due() == limited.now + 4s + kLateAfter));
}

BOOST_AUTO_TEST_CASE(an_opening_that_is_heard_of_is_waited_for) {
  OneIsLate peer;
  peer.late.state = Greeting{};
  peer.begin();
  TEST_LINES(peer.look());
  peer.now += 1s;
  peer.late.heard_at = peer.now;
  BOOST_TEST((peer.due() == peer.now + kLateAfter));
  peer.now += kLateAfter;
  TEST_LINES(peer.look(), "settled without b: its link does not open");
}

// Other members of the tree say nothing of it on a new link: they have told the old ones.
BOOST_AUTO_TEST_CASE(who_begins_when_the_tree_has_is_late_and_other_new_links_tell_nothing) {
  for (const bool begins : {false, true}) {
    SettlingAlone peer;
    peer.add('a').state = OpenState{{.id = 1}};
    Outbox none;
    peer.tree.begin(1, {{peer_named('a')}}, {}, peer.now, none);
    peer.begin();
    peer.tree.hear(peer_named('a'), {.root = 1, .ready = true, .begun = true}, peer.now, none);
    Link& late = peer.add('z');
    late.state = OpenState{{.id = 2}};
    late.settles = begins;
    peer.tree.committed(peer_named('a'), Effect::tells, peer.now, none);
    TEST_LINES(peer.look());
    peer.tree.committed(peer_named('a'), Effect::takes, peer.now, none);
    TEST_LINES(peer.look(), begins ? "settled without z: it came too late" : "settled");
  }
}

BOOST_AUTO_TEST_CASE(who_turns_its_word_again_and_again_delays_nobody) {
  OneIsLate peer;
  peer.begin();
  TEST_LINES(peer.look());
  peer.now += kLateAfter - 1ms;
  peer.add('c').state = settled_state(3);  // it settles, and all have their time again
  TEST_LINES(peer.look());
  BOOST_TEST((peer.due() == peer.now + kLateAfter));
  Link& turning = peer.links.find(peer_named('c'))->second;
  for (int i = 0; i < 4; ++i) {
    turning.open()->session.settled = i % 2 == 1;
    TEST_LINES(peer.look());
    peer.now += kLateAfter / 4;
  }
  TEST_LINES(peer.look(), "settled without b: it commits no exchange");
}

BOOST_AUTO_TEST_CASE(who_agreed_with_nobody_is_unsettled_if_others_were_there) {
  SettlingAlone alone;
  alone.begin();
  TEST_LINES(alone.look(), "settled");

  SettlingAlone forsaken;
  forsaken.settling.on(NeighbourDown{peer_named('a'), true, true});
  forsaken.begin();
  TEST_LINES(forsaken.look(), "unsettled");

  SettlingAlone survivor;
  survivor.settling.on(NeighbourDown{peer_named('a')});
  survivor.begin();
  TEST_LINES(survivor.look(), "settled");
}

BOOST_AUTO_TEST_SUITE_END()
