#include "exchange/settling.hpp"

#include <chrono>

#include <boost/test/unit_test.hpp>

#include "transcript.hpp"

using namespace std::chrono_literals;
using namespace starling;
using namespace starling::exchange;
using namespace starling::exchange::test;

namespace {

struct SettlingAlone {
  Link& add(char peer) {
    Outbox none;
    return links.begin_opening(peer_named(peer), now, none);
  }
  Lines look() {
    Outbox out;
    settling.end_when_agreed(out);
    return lines_of(out);
  }
  Lines expire() {
    Outbox out;
    settling.expire(now, out);
    return lines_of(out);
  }

  base::Time now{};
  Links links{30s};
  Tree tree{7, 3s};
  Settling settling{10s, links, tree};
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
  peer.add('a').state = OpenState{{.id = 1, .settled = true}};
  Link& slow = peer.add('b');
  slow.state = OpenState{{.id = 2}};
  static_cast<void>(peer.settling.on(Phase::settling, peer.now));
  TEST_LINES(peer.look());
  slow.open()->session.settled = true;
  TEST_LINES(peer.look(), "settled");
  BOOST_TEST(peer.settling.is_over());
  TEST_LINES(peer.look());
}

BOOST_AUTO_TEST_CASE(a_link_that_opens_is_waited_for_and_one_in_grace_is_not) {
  SettlingAlone peer;
  Link& link = peer.add('a');
  static_cast<void>(peer.settling.on(Phase::settling, peer.now));
  TEST_LINES(peer.look());
  link.state = BrokenState{{.id = 1}, peer.now + 30s};
  TEST_LINES(peer.look(), "settled");
}

BOOST_AUTO_TEST_CASE(who_has_no_open_link_waits_while_company_is_expected) {
  SettlingAlone peer;
  peer.add('a').state = BrokenState{{.id = 1}, peer.now + 30s};
  peer.settling.on(Company{true});
  static_cast<void>(peer.settling.on(Phase::settling, peer.now));
  TEST_LINES(peer.look());
  peer.settling.on(Company{false});
  TEST_LINES(peer.look(), "settled");
}

BOOST_AUTO_TEST_CASE(it_ends_at_its_timeout_which_then_does_not_run_any_more) {
  SettlingAlone peer;
  peer.add('a');
  static_cast<void>(peer.settling.on(Phase::settling, peer.now));
  const auto due = [&] {
    std::optional<base::Time> found;
    peer.settling.visit_timers(
        [&found](std::string_view, std::optional<base::Time> at, base::Duration) { found = at; });
    return found;
  };
  BOOST_TEST((due() == peer.now + 10s));
  peer.now += 9s;
  TEST_LINES(peer.expire());
  peer.now += 1s;
  TEST_LINES(peer.expire(), "settled late");
  BOOST_TEST(!due().has_value());
  TEST_LINES(peer.expire());
}

BOOST_AUTO_TEST_SUITE_END()
