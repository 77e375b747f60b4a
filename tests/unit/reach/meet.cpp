// A wanted member that cannot simply be dialed, as the one that wants it, as the member in common
// and as the one that is wanted.
#include <algorithm>

#include <boost/test/unit_test.hpp>

#include "script.hpp"

using namespace std::chrono_literals;
using namespace starling::reach;
using namespace starling::reach::testing;
namespace wire = starling::wire;
using wire::Introduce;
using wire::IntroduceKind;
using wire::Reachability;

namespace {

constexpr const char* kHome = "10.1.1.1:7000";  // of t, behind a router

/// m is linked with c at 1.1.1.1 and d at 2.2.2.2, and can itself not be dialed; t neither.
struct BehindRouters : Script {
  explicit BehindRouters(char self = 'm') : Script(self) {
    linked(1, 'c', "1.1.1.1:1");
    linked(2, 'd', "2.2.2.2:1");
    wait(kGather);
    for (const std::uint32_t link_of : {1U, 2U}) {
      for (const Action& action : std::vector<Action>(actions)) {
        const auto* send = std::get_if<Send>(&action);
        const auto* ask = send == nullptr ? nullptr : std::get_if<wire::DialBack>(&send->message);
        if (ask == nullptr || send->link != link(link_of)) continue;
        const auto before = actions;
        hears(link_of, wire::DialedBack{ask->nonce, wire::DialBackOutcome::failed, "8.8.8.8:9"});
        actions = before;
      }
    }
    member('t', Reachability::dials_only, {kHome});
  }
};

Introduce passed_on(IntroduceKind kind, std::uint64_t nonce, char from, std::string observed,
                    std::uint8_t load = 0) {
  return {.kind = kind,
          .passed_on = true,
          .nonce = nonce,
          .other = id(from),
          .observed = std::move(observed),
          .load = load};
}

}  // namespace

BOOST_AUTO_TEST_SUITE(meet)

BOOST_AUTO_TEST_CASE(who_can_be_dialed_is_dialed_and_nobody_asked) {
  Script peer;
  peer.linked(1, 'c', "1.1.1.1:1");
  peer.member('t', Reachability::reachable, {"9.9.9.9:7"});
  BOOST_TEST(peer.tell(Want{"9.9.9.9:7", id('t')}) == Lines{"dial 9.9.9.9:7 direct"});
  BOOST_TEST(peer.answered("9.9.9.9:7", 't') == Lines{});
  BOOST_TEST((peer.last_answer.purpose == Answered::Purpose::want));
  peer.linked(3, 't', "9.9.9.9:7", 0, true, "9.9.9.9:7");
  BOOST_TEST(peer.core.address_of(id('t')) == "");
}

BOOST_AUTO_TEST_CASE(a_dial_that_fails_has_failed_at_once_and_the_next_gets_help) {
  Script peer;
  peer.linked(1, 'c', "1.1.1.1:1");
  peer.member('t', Reachability::unknown, {"9.9.9.9:7"});
  BOOST_TEST(peer.tell(Want{"9.9.9.9:7", id('t')}) == Lines{"dial 9.9.9.9:7 direct"});
  BOOST_TEST(peer.tell(DialFailed{"9.9.9.9:7", "refused"}) == Lines{"failed 9.9.9.9:7"});
  BOOST_TEST(peer.tell(Want{"9.9.9.9:7", id('t')}) == Lines{"dial 9.9.9.9:7 direct"});
  BOOST_TEST(peer.wait(0s) == Lines{"send 1 ask t"});
}

BOOST_AUTO_TEST_CASE(that_there_is_no_route_is_told_also_when_help_was_in_vain) {
  Script peer;
  peer.linked(1, 'c', "1.1.1.1:1");
  peer.member('t', Reachability::unknown, {"9.9.9.9:7"});
  const DialFailed failed{.address = "9.9.9.9:7", .text = "no network", .no_route = true};
  peer.tell(Want{"9.9.9.9:7", id('t')});
  BOOST_TEST(peer.tell(failed) == Lines{"failed 9.9.9.9:7, no route"});
  peer.tell(Want{"9.9.9.9:7", id('t')});
  BOOST_TEST(peer.wait(0s) == Lines{"send 1 ask t"});
  BOOST_TEST(peer.tell(failed) == Lines{});
  const Lines at_last = peer.wait(kAskWait);
  BOOST_TEST(std::ranges::count(at_last, "failed 9.9.9.9:7, no route") == 1);
}

BOOST_AUTO_TEST_CASE(a_dial_that_takes_long_gets_help) {
  Script peer;
  peer.linked(1, 'c', "1.1.1.1:1");
  peer.member('t', Reachability::unknown, {"9.9.9.9:7"});
  peer.tell(Want{"9.9.9.9:7", id('t')});
  BOOST_TEST(peer.wait(kDirectAlone - 1ms).size() <= 1U);  // it asks to be dialed back
  BOOST_TEST(peer.wait(1ms) == Lines{"send 1 ask t"});
}

BOOST_AUTO_TEST_CASE(a_configured_address_is_just_dialed) {
  Script peer;
  BOOST_TEST(peer.tell(Want{"9.9.9.9:7", {}}) == Lines{"dial 9.9.9.9:7 direct"});
  BOOST_TEST(peer.tell(DialFailed{"9.9.9.9:7", "refused"}) == Lines{"failed 9.9.9.9:7"});
}

BOOST_AUTO_TEST_CASE(who_cannot_be_dialed_is_asked_for_met_and_then_relayed) {
  BehindRouters peer;
  BOOST_TEST(peer.tell(Want{kHome, id('t')}) == Lines{});
  BOOST_TEST(peer.wait(0s) == (Lines{"send 1 ask t", "send 2 ask t"}));
  const auto nonce = peer.nonce;
  peer.wait(40ms);
  BOOST_TEST(peer.hears(1, passed_on(IntroduceKind::answer, nonce, 't', "8.8.4.4:4321")) ==
             Lines{"send 1 go t"});
  // Its go takes half of the 40 ms; at the address that c sees, and by the port it listens on.
  const Lines punches{"dial 8.8.4.4:4321 punch", "dial 8.8.4.4:7000 punch"};
  BOOST_TEST(peer.wait(20ms) == punches);
  peer.tell(DialFailed{"8.8.4.4:4321", "refused"});
  BOOST_TEST(peer.tell(DialFailed{"8.8.4.4:7000", "refused"}) == Lines{});
  BOOST_TEST(peer.hears(2, passed_on(IntroduceKind::answer, nonce, 't', "8.8.4.4:4322")) ==
             Lines{});
  for (int again = 1; again < kTries; ++again) {
    BOOST_TEST(peer.wait(kTryTime + 160ms) == Lines{"send 1 go t"});
    BOOST_TEST(peer.wait(20ms) == punches);
    peer.tell(DialFailed{"8.8.4.4:4321", "refused"});
    peer.tell(DialFailed{"8.8.4.4:7000", "refused"});
  }
  BOOST_TEST(peer.wait(kTryTime + 160ms) == Lines{"send 1 circuit t"});
  BOOST_TEST(
      peer.hears(1, wire::Circuit{.kind = wire::CircuitKind::accept, .number = peer.number}) ==
      (Lines{"hold 1", "open 1 with t, begins"}));
  BOOST_TEST(peer.core.address_of(id('t')) == kHome);
  peer.linked(9, 't', "", 1, true, kHome);
  BOOST_TEST(peer.core.address_of(id('t')) == "");
}

BOOST_AUTO_TEST_CASE(who_was_not_met_of_late_is_relayed_at_once) {
  BehindRouters peer;
  for (int time = 0; time < 2; ++time) {
    peer.tell(Want{kHome, id('t')});
    peer.wait(0s);
    const auto nonce = peer.nonce;
    const auto answer = passed_on(IntroduceKind::answer, nonce, 't', "8.8.4.4:4321");
    const Lines first = peer.hears(1, answer);
    if (time == 1) {
      BOOST_TEST(first == Lines{"send 1 circuit t"});
      break;
    }
    BOOST_TEST(first.front() == "send 1 go t");
    BOOST_TEST(peer.wait(kTries * kTryTime).back() == "send 1 circuit t");
    peer.hears(1, wire::Circuit{.kind = wire::CircuitKind::refuse,
                                .number = peer.number,
                                .reason = wire::CircuitRefusal::full});
  }
}

BOOST_AUTO_TEST_CASE(a_link_by_simultaneous_dials_is_the_outcome) {
  BehindRouters peer;
  peer.tell(Want{kHome, id('t')});
  peer.wait(0s);
  peer.hears(1, passed_on(IntroduceKind::answer, peer.nonce, 't', "8.8.4.4:7000"));
  BOOST_TEST(peer.actions.size() == 2U);  // go, and as there was no round trip, its own dial
  BOOST_TEST(peer.answered("8.8.4.4:7000", 't') == Lines{});
  BOOST_TEST((peer.last_answer.purpose == Answered::Purpose::meet));
  BOOST_TEST(peer.core.address_of(id('t')) == kHome);
  peer.linked(9, 't', "8.8.4.4:7000", 0, true, kHome);
  BOOST_TEST(peer.wait(5s) == Lines{});
}

BOOST_AUTO_TEST_CASE(another_one_at_that_address_is_no_link) {
  BehindRouters peer;
  peer.tell(Want{kHome, id('t')});
  peer.wait(0s);
  peer.hears(1, passed_on(IntroduceKind::answer, peer.nonce, 't', "8.8.4.4:7000"));
  peer.answered("8.8.4.4:7000", 'x');
  BOOST_TEST((peer.last_answer.purpose == Answered::Purpose::close));
}

BOOST_AUTO_TEST_CASE(where_nobody_has_a_link_with_it_the_want_has_failed) {
  BehindRouters peer;
  peer.tell(Want{kHome, id('t')});
  peer.wait(0s);
  const Introduce absent{.kind = IntroduceKind::absent, .nonce = peer.nonce, .other = id('t')};
  BOOST_TEST(peer.hears(1, absent) == Lines{});
  BOOST_TEST(peer.hears(2, absent) == Lines{std::string("failed ") + kHome});
}

BOOST_AUTO_TEST_CASE(without_an_answer_the_want_has_failed) {
  BehindRouters peer;
  peer.tell(Want{kHome, id('t')});
  peer.wait(0s);
  BOOST_TEST(peer.wait(kAskWait) == Lines{std::string("failed ") + kHome});
}

BOOST_AUTO_TEST_CASE(without_a_link_it_dials_whoever_says_that_it_cannot_be_dialed) {
  Script peer;
  peer.member('t', Reachability::dials_only, {kHome});
  BOOST_TEST(peer.tell(Want{kHome, id('t')}) == Lines{std::string("dial ") + kHome + " direct"});
}

BOOST_AUTO_TEST_CASE(one_without_an_address_is_asked_for) {
  BehindRouters peer;
  BOOST_TEST(peer.tell(Want{"t, wherever", id('t')}) == Lines{});
  BOOST_TEST(peer.wait(0s) == (Lines{"send 1 ask t", "send 2 ask t"}));
}

BOOST_AUTO_TEST_CASE(one_of_a_network_of_its_own_is_dialed_all_the_same) {
  BehindRouters peer;
  peer.member('t', Reachability::dials_only, {"192.168.1.9:7000"});
  BOOST_TEST(peer.tell(Want{"192.168.1.9:7000", id('t')}) == Lines{"dial 192.168.1.9:7000 direct"});
}

BOOST_AUTO_TEST_CASE(the_member_in_common_passes_on_what_it_sees) {
  Script peer('c');
  peer.linked(1, 'a', "8.8.8.8:1234");
  peer.linked(2, 't', "8.8.4.4:4321");
  peer.linked(3, 'u', "", 2);  // over a circuit
  const auto message = [](IntroduceKind kind, char other) {
    return Introduce{.kind = kind, .nonce = 7, .other = id(other)};
  };
  BOOST_TEST(peer.hears(1, message(IntroduceKind::ask, 't')) ==
             Lines{"send 2 ask a from 8.8.8.8:1234"});
  BOOST_TEST(peer.hears(2, message(IntroduceKind::answer, 'a')) ==
             Lines{"send 1 answer t from 8.8.4.4:4321"});
  BOOST_TEST(peer.hears(1, message(IntroduceKind::go, 't')) ==
             Lines{"send 2 go a from 8.8.8.8:1234"});
  BOOST_TEST(peer.hears(1, message(IntroduceKind::ask, 'u')) == Lines{"send 1 absent u"});
  BOOST_TEST(peer.hears(1, message(IntroduceKind::ask, 'a')) == Lines{"send 1 absent a"});
  BOOST_TEST(peer.hears(1, message(IntroduceKind::answer, 'z')) == Lines{});
  BOOST_TEST(peer.hears(3, message(IntroduceKind::ask, 'a')) == Lines{});
}

BOOST_AUTO_TEST_CASE(who_asks_too_often_is_not_answered) {
  Script peer('c');
  peer.linked(1, 'a', "8.8.8.8:1234");
  peer.linked(2, 't', "8.8.4.4:4321");
  std::size_t passed = 0;
  for (int i = 0; i < 1000; ++i) {
    passed +=
        peer.hears(1, Introduce{.kind = IntroduceKind::ask, .nonce = 7, .other = id('t')}).size();
  }
  BOOST_TEST(passed == static_cast<std::size_t>(kIntroductionsEachBurst));
}

BOOST_AUTO_TEST_CASE(who_is_wanted_dials_a_reachable_asker_back_at_once) {
  Script peer('t');
  peer.linked(1, 'c', "1.1.1.1:1");
  peer.member('a', Reachability::reachable, {"9.9.9.9:7", "192.168.1.1:7"});
  BOOST_TEST(peer.hears(1, passed_on(IntroduceKind::ask, 7, 'a', "9.9.9.9:555")) ==
             (Lines{"send 1 answer a", "dial 9.9.9.9:7 direct"}));
  BOOST_TEST(peer.answered("9.9.9.9:7", 'a') == Lines{});
  BOOST_TEST((peer.last_answer.purpose == Answered::Purpose::back));
  BOOST_TEST(peer.last_answer.nonce == 7U);
}

BOOST_AUTO_TEST_CASE(who_is_wanted_dials_others_when_told_to_three_times) {
  Script peer('t');
  peer.linked(1, 'c', "1.1.1.1:1");
  peer.linked(2, 'd', "2.2.2.2:1");
  peer.member('a', Reachability::dials_only, {"10.0.0.1:7000"});
  BOOST_TEST(peer.hears(1, passed_on(IntroduceKind::ask, 7, 'a', "9.9.9.9:555")) ==
             Lines{"send 1 answer a"});
  const auto go = passed_on(IntroduceKind::go, 7, 'a', "9.9.9.9:555");
  BOOST_TEST(peer.hears(2, go) == Lines{});  // by another member than introduced it
  for (int i = 0; i < kTries; ++i) {
    BOOST_TEST(peer.hears(1, go) == (Lines{"dial 9.9.9.9:555 punch", "dial 9.9.9.9:7000 punch"}));
    peer.tell(DialFailed{"9.9.9.9:555", "refused"});
    peer.tell(DialFailed{"9.9.9.9:7000", "refused"});
  }
  BOOST_TEST(peer.hears(1, go) == Lines{});
}

BOOST_AUTO_TEST_CASE(nobody_dials_for_strangers_or_without_an_introduction) {
  Script peer('t');
  peer.linked(1, 'c', "1.1.1.1:1");
  BOOST_TEST(peer.hears(1, passed_on(IntroduceKind::ask, 7, 'x', "9.9.9.9:80")) == Lines{});
  peer.member('a');
  BOOST_TEST(peer.hears(1, passed_on(IntroduceKind::go, 7, 'a', "9.9.9.9:80")) == Lines{});
  BOOST_TEST(peer.hears(1, passed_on(IntroduceKind::ask, 7, 't', "9.9.9.9:80")) == Lines{});
  BOOST_TEST(peer.hears(1, passed_on(IntroduceKind::ask, 7, 'c', "9.9.9.9:80")) == Lines{});
  BOOST_TEST(peer.hears(1, passed_on(IntroduceKind::answer, 7, 'a', "9.9.9.9:80")) == Lines{});
  peer.hears(1, passed_on(IntroduceKind::ask, 7, 'a', "9.9.9.9:80"));
  peer.wait(kIntroducedFor);
  BOOST_TEST(peer.hears(1, passed_on(IntroduceKind::go, 7, 'a', "9.9.9.9:80")) == Lines{});
}

BOOST_AUTO_TEST_CASE(a_member_that_introduces_many_does_not_make_it_dial_many) {
  Script peer('t');
  peer.linked(1, 'c', "1.1.1.1:1");
  std::size_t dials = 0;
  for (int i = 0; i < 200; ++i) {
    const char letter = static_cast<char>('A' + i % 25);
    peer.member(letter, Reachability::reachable, {"9.9.9.9:80"});
    const auto nonce = static_cast<std::uint64_t>(i);
    for (const auto& line : peer.hears(1, passed_on(IntroduceKind::ask, nonce, letter, ""))) {
      dials += line.starts_with("dial") ? 1 : 0;
    }
  }
  BOOST_TEST(dials == kBacksMax);
}

BOOST_AUTO_TEST_CASE(of_two_that_ask_for_each_other_the_smaller_id_leads) {
  BehindRouters smaller('m');
  smaller.tell(Want{kHome, id('t')});
  smaller.wait(0s);
  BOOST_TEST(smaller.hears(1, passed_on(IntroduceKind::ask, 7, 't', "8.8.4.4:1")) == Lines{});
  BehindRouters larger('z');
  larger.tell(Want{kHome, id('t')});
  larger.wait(0s);
  BOOST_TEST(larger.hears(1, passed_on(IntroduceKind::ask, 7, 't', "8.8.4.4:1")) ==
             (Lines{std::string("failed ") + kHome, "send 1 answer t"}));
}

BOOST_AUTO_TEST_CASE(a_relayed_link_looks_for_a_direct_path_ever_more_rarely) {
  BehindRouters peer;
  peer.linked(9, 't', "", 1, true);
  BOOST_TEST(peer.wait(kUpgradeMin - 1ms) == Lines{});
  BOOST_TEST(peer.wait(1ms) == (Lines{"send 1 ask t", "send 2 ask t"}));
  peer.hears(1, passed_on(IntroduceKind::answer, peer.nonce, 't', "8.8.4.4:7000"));
  const Lines rest = peer.wait(3 * kTryTime);
  BOOST_TEST(std::count(rest.begin(), rest.end(), "send 1 circuit t") == 0);
  BOOST_TEST(std::count(rest.begin(), rest.end(), "send 1 go t") == 0);  // one try, as it began
  std::size_t asks = 0;
  for (int minute = 0; minute < 60; ++minute) {
    for (const auto& line : peer.wait(60s)) asks += line == "send 1 ask t" ? 1 : 0;
  }
  BOOST_TEST(asks >= 6U);
  BOOST_TEST(asks <= 20U);
  // Once there is one, no more.
  peer.linked(10, 't', "8.8.4.4:7000", 0, true);
  peer.tell(LinkLost{link(9)});
  for (const auto& line : peer.wait(3600s)) BOOST_TEST(line != "send 1 ask t");
}

BOOST_AUTO_TEST_SUITE_END()
