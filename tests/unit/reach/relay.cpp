// Circuits: as the asker, as the relay and as the target.
#include <boost/test/unit_test.hpp>

#include "script.hpp"

using namespace std::chrono_literals;
using namespace starling::reach;
using namespace starling::reach::testing;
namespace wire = starling::wire;
using wire::Circuit;
using wire::CircuitKind;
using wire::CircuitRefusal;

namespace {

Circuit ask(std::uint32_t number, char other) {
  return {.kind = CircuitKind::ask, .number = number, .other = id(other)};
}
Circuit offer(std::uint32_t number, char other) {
  return {.kind = CircuitKind::offer, .number = number, .other = id(other)};
}
Circuit accept(std::uint32_t number) { return {.kind = CircuitKind::accept, .number = number}; }
Circuit refuse(std::uint32_t number) {
  return {.kind = CircuitKind::refuse, .number = number, .reason = CircuitRefusal::unwanted};
}

/// c is linked with a (1), b (2), t (3), and u over a circuit (4).
struct Relaying : Script {
  explicit Relaying(Config config = {}, bool secure = true) : Script('c', config, secure) {
    linked(1, 'a', "8.8.8.8:1");
    linked(2, 'b', "8.8.8.8:2");
    linked(3, 't', "8.8.4.4:1");
    linked(4, 'u', "", 3);
  }
};

std::size_t accepted(Script& peer, std::uint32_t from, std::uint32_t first, std::size_t count) {
  std::size_t taken = 0;
  for (std::uint32_t i = 0; i < count; ++i) {
    const Lines lines = peer.hears(from, ask(first + i, 't'));
    if (lines.back() != std::string("send 3 offer ") + (from == 1 ? "a" : "b")) continue;
    peer.hears(3, accept(peer.number));
    ++taken;
  }
  return taken;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(relay)

BOOST_AUTO_TEST_CASE(a_relay_offers_starts_and_forgets_a_circuit) {
  Relaying peer;
  BOOST_TEST(peer.hears(1, ask(77, 't')) == (Lines{"hold 1", "hold 3", "send 3 offer a"}));
  const auto number = peer.number;
  BOOST_TEST(peer.hears(3, accept(number)) == (Lines{"relay 1 and 3", "send 1 accept"}));
  BOOST_TEST(peer.number == 77U);
  BOOST_TEST(peer.core.circuits().relayed() == 1U);
  BOOST_TEST(peer.tell(CircuitEnded{link(3), number, 4096}) == (Lines{"free 1", "free 3"}));
  BOOST_TEST(peer.core.circuits().relayed() == 0U);
  BOOST_TEST(peer.core.circuits().relayed_bytes() == 4096U);
}

BOOST_AUTO_TEST_CASE(it_refuses_and_says_why) {
  Relaying off({.circuits = 0});
  BOOST_TEST(off.hears(1, ask(1, 't')) == Lines{"send 1 refuse: it relays for no peer"});
  Relaying no_rate({.limit = 0});
  BOOST_TEST(no_rate.hears(1, ask(1, 't')) == Lines{"send 1 refuse: it relays for no peer"});
  Relaying open({}, false);  // security.mode = "off"
  BOOST_TEST(open.hears(1, ask(1, 't')) == Lines{"send 1 refuse: it relays for no peer"});
  Relaying peer;
  const Lines absent{"send 1 refuse: it has no direct link with that member"};
  BOOST_TEST(peer.hears(1, ask(1, 'x')) == absent);
  BOOST_TEST(peer.hears(1, ask(2, 'u')) == absent);  // no circuit over a circuit
  BOOST_TEST(peer.hears(1, ask(3, 'a')) == absent);  // with oneself
  BOOST_TEST(peer.hears(4, ask(4, 'a')) == Lines{});
}

BOOST_AUTO_TEST_CASE(it_takes_as_many_as_allowed_and_few_of_one) {
  Relaying peer({.circuits = 8});
  BOOST_TEST(accepted(peer, 1, 100, 10) == kCircuitsOfOne);
  BOOST_TEST(accepted(peer, 2, 100, 10) == 2U);
  BOOST_TEST(peer.hears(2, ask(1, 't')) == Lines{"send 2 refuse: it takes no more circuits"});
  peer.tell(CircuitEnded{link(1), 100, 0});
  BOOST_TEST(peer.hears(2, ask(2, 't')).back() == "send 3 offer b");
}

BOOST_AUTO_TEST_CASE(who_asks_all_the_time_is_told_busy) {
  Relaying peer;
  Lines last;
  for (std::uint32_t i = 0; i < 100; ++i) last = peer.hears(1, ask(i, 'x'));
  BOOST_TEST(last == Lines{"send 1 refuse: it was asked too often"});
}

BOOST_AUTO_TEST_CASE(a_number_names_one_circuit) {
  Relaying peer;
  peer.hears(1, ask(5, 't'));
  BOOST_TEST(peer.hears(1, ask(5, 'b')) == Lines{"send 1 refuse: it was asked too often"});
}

BOOST_AUTO_TEST_CASE(an_offer_that_is_not_answered_ends) {
  Relaying peer;
  peer.wait(kGather + kWitnessWait);  // it has asked whether it can be dialed
  peer.hears(1, ask(5, 't'));
  const auto number = peer.number;
  BOOST_TEST(peer.wait(kOfferWait) ==
             (Lines{"send 1 refuse: the other end refused it", "free 1", "free 3"}));
  BOOST_TEST(peer.hears(3, accept(number)) == Lines{"send 3 refuse: the other end refused it"});
}

BOOST_AUTO_TEST_CASE(an_offer_ends_with_either_link) {
  Relaying peer;
  peer.hears(1, ask(5, 't'));
  BOOST_TEST(peer.tell(LinkLost{link(3)}) ==
             (Lines{"send 1 refuse: it has no direct link with that member", "free 1"}));
  BOOST_TEST(peer.core.circuits().relayed() == 0U);
}

BOOST_AUTO_TEST_CASE(a_target_takes_offers_of_members) {
  Script peer('t');
  peer.linked(1, 'c', "1.1.1.1:1");
  peer.member('a');
  const Lines no{"send 1 refuse: the other end refused it"};
  BOOST_TEST(peer.hears(1, offer(1, 'x')) == no);
  BOOST_TEST(peer.hears(1, offer(2, 't')) == no);
  BOOST_TEST(peer.hears(1, offer(3, 'c')) == no);
  BOOST_TEST(peer.hears(1, offer(4, 'a')) == (Lines{"hold 1", "open 1 with a", "send 1 accept"}));
  BOOST_TEST(peer.hears(1, offer(4, 'a')) == no);  // that number is taken
  BOOST_TEST(peer.hears(1, refuse(4)) == Lines{"end circuit on 1"});
  BOOST_TEST(peer.tell(CircuitEnded{link(1), 4, 0}) == Lines{"free 1"});
}

BOOST_AUTO_TEST_CASE(who_is_about_to_end_relays_on_and_takes_nothing_new) {
  Relaying peer;
  peer.member('a');
  peer.hears(1, ask(5, 't'));
  peer.hears(3, accept(peer.number));
  peer.hears(2, offer(6, 'a'));
  BOOST_TEST(peer.tell(Retire{}) == Lines{"end circuit on 2"});
  BOOST_TEST(peer.tell(CircuitEnded{link(2), 6, 0}) == Lines{"free 2"});
  BOOST_TEST(peer.core.circuits().relayed() == 1U);
  BOOST_TEST(peer.hears(2, ask(7, 't')) == Lines{"send 2 refuse: it relays for no peer"});
  BOOST_TEST(peer.hears(2, offer(8, 'a')) == Lines{"send 2 refuse: the other end refused it"});
}

BOOST_AUTO_TEST_CASE(without_security_no_offer_is_taken) {
  Script peer('t', {}, false);
  peer.linked(1, 'c', "1.1.1.1:1");
  peer.member('a');
  BOOST_TEST(peer.hears(1, offer(1, 'a')) == Lines{"send 1 refuse: the other end refused it"});
}

BOOST_AUTO_TEST_CASE(offers_are_bounded) {
  Script peer('t');
  peer.linked(1, 'c', "1.1.1.1:1");
  peer.member('a');
  std::size_t opened = 0;
  for (std::uint32_t i = 0; i < 100; ++i) opened += peer.hears(1, offer(i, 'a')).size() > 1 ? 1 : 0;
  BOOST_TEST(opened == kCircuitEndsMax);
}

BOOST_AUTO_TEST_CASE(what_nobody_asked_for_is_not_accepted) {
  Script peer('m');
  peer.linked(1, 'c', "1.1.1.1:1");
  BOOST_TEST(peer.hears(1, accept(9)) == Lines{"send 1 refuse: the other end refused it"});
  BOOST_TEST(peer.hears(1, refuse(9)) == Lines{});
  BOOST_TEST(peer.tell(CircuitEnded{link(1), 9, 0}) == Lines{});
}

BOOST_AUTO_TEST_CASE(a_relay_that_refuses_or_dies_is_replaced_by_the_next) {
  Script peer('m');
  peer.linked(1, 'c', "1.1.1.1:1");
  peer.linked(2, 'd', "2.2.2.2:1");
  peer.linked(3, 'e', "3.3.3.3:1");
  peer.member('t', wire::Reachability::dials_only, {"10.1.1.1:7000"});
  peer.tell(Want{"10.1.1.1:7000", id('t')});
  peer.wait(0s);
  const auto answer = [&](std::uint8_t load) {
    return wire::Introduce{.kind = wire::IntroduceKind::answer,
                           .passed_on = true,
                           .nonce = peer.nonce,
                           .other = id('t'),
                           .observed = "",
                           .load = load};
  };
  peer.wait(10ms);
  const auto nonce = peer.nonce;
  peer.hears(1, answer(200));
  peer.nonce = nonce;
  peer.hears(2, answer(0));
  peer.hears(3, answer(wire::kLoadFull));
  Lines all = peer.wait(kTries * (kTryTime + 45ms));
  BOOST_TEST(all.back() == "send 2 circuit t");  // the less loaded one
  BOOST_TEST(peer.hears(2, refuse(peer.number)) == Lines{"send 1 circuit t"});
  BOOST_TEST(peer.hears(1, accept(peer.number)).back() == "open 1 with t, begins");
  BOOST_TEST(peer.tell(CircuitEnded{link(1), peer.number, 0}) ==
             (Lines{"free 1", "failed 10.1.1.1:7000"}));  // the third is full
}

BOOST_AUTO_TEST_SUITE_END()
