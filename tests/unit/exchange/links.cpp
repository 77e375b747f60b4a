#include "exchange/links.hpp"

#include <chrono>

#include <boost/test/unit_test.hpp>

#include "transcript.hpp"

using namespace std::chrono_literals;
using namespace starling;
using namespace starling::exchange;
using namespace starling::exchange::test;

namespace {

struct LinksAlone {
  Link& up(char peer) {
    last.clear();
    return links.begin_opening(peer_named(peer), now, last);
  }
  void open(char peer) { up(peer).state = OpenState{{.id = 9}}; }
  Lines down(char peer, bool for_good = false) {
    last.clear();
    links.on(NeighbourDown{peer_named(peer), for_good}, now, last);
    return lines_of(last);
  }
  Lines expire() {
    last.clear();
    links.expire(now, last);
    return lines_of(last);
  }

  base::Time now{};
  Links links{30s};
  Outbox last;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(links)

BOOST_AUTO_TEST_CASE(a_link_without_mirrors_is_forgotten_when_it_breaks) {
  LinksAlone peer;
  peer.up('a');
  TEST_LINES(peer.down('a'));
  BOOST_TEST(peer.links.status().empty());
}

BOOST_AUTO_TEST_CASE(a_link_that_breaks_keeps_its_session_and_opens_with_it) {
  LinksAlone peer;
  peer.open('a');
  TEST_LINES(peer.down('a'), "a: run suspend");
  const Link& link = peer.up('a');
  BOOST_REQUIRE((link.session() != nullptr));
  BOOST_TEST(link.session()->id == 9U);
  BOOST_TEST((link.in<Greeting>() != nullptr));
  TEST_LINES(peer.down('a'));  // its mirrors are suspended still
  BOOST_TEST(peer.links.find(peer_named('a'))->second.broken()->session.id == 9U);
}

BOOST_AUTO_TEST_CASE(a_link_may_break_in_a_commit_but_not_with_a_delta_under_way) {
  LinksAlone peer;
  peer.open('a');
  Session& session = peer.links.find(peer_named('a'))->second.open()->session;
  session.encode_job = 3;
  session.commit_job = 4;
  session.rests = true;
  session.received = wire::Delta{};
  peer.down('a');
  const Session& kept = peer.links.find(peer_named('a'))->second.broken()->session;
  BOOST_TEST(kept.encode_job == 0U);
  BOOST_TEST(kept.commit_job == 4U);
  BOOST_TEST(!kept.rests);
  BOOST_TEST(!kept.received.has_value());
}

BOOST_AUTO_TEST_CASE(grace_is_the_only_timer_and_ends_a_link) {
  LinksAlone peer;
  peer.open('a');
  std::size_t timers = 0;
  const auto count = [&](std::string_view name, std::optional<base::Time> at,
                         base::Duration limit) {
    BOOST_TEST(name == "the end of grace");
    BOOST_TEST((at == peer.now + limit));
    ++timers;
  };
  peer.links.visit_timers(count);
  BOOST_TEST(timers == 0U);
  peer.down('a');
  peer.links.visit_timers(count);
  BOOST_TEST(timers == 1U);
  peer.now += 30s;
  TEST_LINES(peer.expire(), "a: run close");
}

BOOST_AUTO_TEST_CASE(a_link_that_ends_takes_back_what_was_asked_for_to_open_it) {
  LinksAlone peer;
  peer.up('a').state = Giving{.session = 9, .keyframe_job = 5};
  TEST_LINES(peer.down('a', true), "a: run close");
  peer.up('a').state = Merging{.session = 9, .own = base::Bytes(8)};  // it is written already
  TEST_LINES(peer.down('a', true));
  peer.up('a').state = Adopting{.session = 9};
  TEST_LINES(peer.down('a', true));
  peer.up('a').state = SettingMirrors{.session = 9, .open_job = 6};
  TEST_LINES(peer.down('a', true), "a: run close");
}

BOOST_AUTO_TEST_CASE(what_has_no_room_ends_its_link_and_anything_else_the_peer) {
  LinksAlone peer;
  peer.open('a');
  peer.links.refuse_or_fail(peer.links.find(peer_named('a')), {base::ErrorCode::no_room, "text"},
                            peer.last);
  TEST_LINES(lines_of(peer.last), "a: run close", "a: no room");
  peer.open('b');
  peer.links.refuse_or_fail(peer.links.find(peer_named('b')), {base::ErrorCode::diverged, "text"},
                            peer.last);
  TEST_LINES(lines_of(peer.last), "failed");
  BOOST_TEST(peer.links.open_count() == 1U);
}

BOOST_AUTO_TEST_CASE(totals_count_links_that_are_gone) {
  LinksAlone peer;
  peer.open('a');
  Link& link = peer.links.find(peer_named('a'))->second;
  link.counters.exchanges = 3;
  link.open()->session.kept.resize(1);  // the other end may have committed it
  peer.down('a', true);
  BOOST_TEST(peer.links.totals().exchanges == 3U);
  BOOST_TEST(peer.links.totals().lost_steps == 1U);
}

BOOST_AUTO_TEST_SUITE_END()
