// Can this peer be dialed? As the one that asks, and as the one that is asked.
#include <algorithm>

#include <boost/test/unit_test.hpp>

#include "script.hpp"

using namespace std::chrono_literals;
using namespace starling::reach;
using namespace starling::reach::testing;
namespace wire = starling::wire;
using wire::DialBack;
using wire::DialBackOutcome;
using wire::DialedBack;
using wire::Reachability;

BOOST_AUTO_TEST_SUITE(witness)

namespace {

std::uint64_t nonce_to(const Script& peer, std::uint32_t number) {
  for (const Action& action : peer.actions) {
    const auto* send = std::get_if<Send>(&action);
    if (send == nullptr || send->link != link(number)) continue;
    if (const auto* ask = std::get_if<DialBack>(&send->message)) return ask->nonce;
  }
  return 0;
}

}  // namespace

BOOST_AUTO_TEST_CASE(members_of_two_other_networks_are_asked) {
  Script peer;
  peer.linked(1, 'a', "192.168.7.7:1");  // of its own network
  peer.linked(2, 'b', "1.2.3.4:1");
  peer.linked(3, 'c', "1.2.9.9:1");  // the network of b
  peer.linked(4, 'd', "[2001:db8::1]:1");
  peer.linked(5, 'e', "9.9.9.9:1", 2);  // over a circuit
  const Lines lines = peer.wait(kGather);
  BOOST_TEST(lines.size() == 2U);
  BOOST_TEST(std::count(lines.begin(), lines.end(), "send 1 dial back 7000") == 0);
  BOOST_TEST(std::count(lines.begin(), lines.end(), "send 4 dial back 7000") == 1);
  BOOST_TEST(std::count(lines.begin(), lines.end(), "send 5 dial back 7000") == 0);
}

BOOST_AUTO_TEST_CASE(where_all_are_in_one_private_network_members_there_do) {
  Script peer;
  peer.linked(1, 'a', "192.168.7.7:1");
  BOOST_TEST(peer.wait(kGather) == Lines{});
  BOOST_TEST(peer.wait(kLocalAfter) == Lines{"send 1 dial back 7000"});
  BOOST_TEST(
      peer.hears(1, DialedBack{nonce_to(peer, 1), DialBackOutcome::reached, "192.168.1.2:5"}) ==
      Lines{"tell reachable 192.168.1.2:7000"});
  // Somebody from outside knows better.
  peer.wait(kAskPause);
  peer.linked(2, 'b', "1.2.3.4:1");
  BOOST_TEST(peer.wait(kGather) == Lines{"send 2 dial back 7000"});
  BOOST_TEST(peer.hears(2, DialedBack{nonce_to(peer, 2), DialBackOutcome::failed, "8.8.8.8:5"}) ==
             Lines{"tell dials only"});
}

BOOST_AUTO_TEST_CASE(one_success_outweighs_one_failure) {
  Script peer;
  peer.linked(1, 'a', "1.2.3.4:1");
  peer.linked(2, 'b', "5.6.7.8:1");
  peer.wait(kGather);
  const auto a = nonce_to(peer, 1);
  const auto b = nonce_to(peer, 2);
  BOOST_TEST(peer.hears(1, DialedBack{a, DialBackOutcome::failed, "8.8.8.8:4444"}) == Lines{});
  BOOST_TEST(peer.hears(2, DialedBack{b, DialBackOutcome::reached, "8.8.8.8:5555"}) ==
             Lines{"tell reachable 8.8.8.8:7000"});
  BOOST_TEST(peer.core.own().outer() == "8.8.8.8:7000");
}

BOOST_AUTO_TEST_CASE(what_nobody_asked_for_is_no_answer) {
  Script peer;
  peer.linked(1, 'a', "1.2.3.4:1");
  peer.linked(2, 'b', "5.6.7.8:1");
  peer.wait(kGather);
  const auto a = nonce_to(peer, 1);
  BOOST_TEST(peer.hears(1, DialedBack{a + 1, DialBackOutcome::reached, "8.8.8.8:1"}) == Lines{});
  BOOST_TEST(peer.hears(2, DialedBack{a, DialBackOutcome::reached, "8.8.8.8:1"}) == Lines{});
  BOOST_TEST(peer.hears(7, DialedBack{a, DialBackOutcome::reached, "8.8.8.8:1"}) == Lines{});
  BOOST_TEST((peer.core.own().reach() == Reachability::unknown));
}

BOOST_AUTO_TEST_CASE(without_a_result_it_asks_again_ever_more_rarely) {
  Script peer;
  peer.linked(1, 'a', "1.2.3.4:1");
  peer.wait(kGather);
  BOOST_TEST(peer.hears(1, DialedBack{nonce_to(peer, 1), DialBackOutcome::busy, ""}) == Lines{});
  BOOST_TEST(peer.wait(kAskAgainMin - 1s) == Lines{});
  BOOST_TEST(peer.wait(1s) == Lines{"send 1 dial back 7000"});
  BOOST_TEST(peer.wait(kWitnessWait + 2 * kAskAgainMin - 1s) == Lines{});  // nobody answers
  BOOST_TEST(peer.wait(1s) == Lines{"send 1 dial back 7000"});
}

BOOST_AUTO_TEST_CASE(a_machine_that_moves_asks_anew) {
  Script peer;
  peer.linked(1, 'a', "1.2.3.4:1");
  peer.wait(kGather);
  peer.hears(1, DialedBack{nonce_to(peer, 1), DialBackOutcome::failed, "8.8.8.8:1"});
  BOOST_TEST((peer.core.own().reach() == Reachability::dials_only));
  BOOST_TEST(peer.tell(Moved{{"10.0.0.1:7001"}}) == Lines{"tell unknown"});
  BOOST_TEST(peer.wait(kGather) == Lines{"send 1 dial back 7001"});
}

BOOST_AUTO_TEST_CASE(another_order_of_its_addresses_is_no_move) {
  Script peer('m', {}, true, {"192.168.1.2:7000", "10.0.0.1:7000"});
  peer.linked(1, 'a', "1.2.3.4:1");
  peer.wait(kGather);
  peer.hears(1, DialedBack{nonce_to(peer, 1), DialBackOutcome::reached, "8.8.8.8:1"});
  BOOST_TEST(peer.tell(Moved{{"10.0.0.1:7000", "192.168.1.2:7000"}}) ==
             Lines{"tell reachable 8.8.8.8:7000"});
}

BOOST_AUTO_TEST_CASE(only_the_address_that_the_asker_is_seen_at_is_dialed_for_it) {
  Script peer;
  peer.linked(1, 'a', "1.2.3.4:5555");
  BOOST_TEST(peer.hears(1, DialBack{9, 7000}) == Lines{"dial 1.2.3.4:7000 direct"});
  BOOST_TEST(peer.answered("1.2.3.4:7000", 'a') == Lines{"send 1 reached 1.2.3.4:5555"});
  BOOST_TEST((peer.last_answer.purpose == Answered::Purpose::close));
}

BOOST_AUTO_TEST_CASE(who_answers_in_anothers_place_has_not_been_reached) {
  Script peer;
  peer.linked(1, 'a', "1.2.3.4:5555");
  peer.hears(1, DialBack{9, 80});
  BOOST_TEST(peer.answered("1.2.3.4:80", 'b') == Lines{"send 1 failed 1.2.3.4:5555"});
  BOOST_TEST((peer.last_answer.purpose == Answered::Purpose::close));
}

BOOST_AUTO_TEST_CASE(a_dial_back_that_takes_long_has_failed_and_no_link_comes_of_it) {
  Script peer;
  peer.linked(1, 'a', "1.2.3.4:5555");
  peer.wait(kGather + kWitnessWait);  // it has asked itself, in vain
  peer.hears(1, DialBack{9, 7000});
  BOOST_TEST(peer.wait(kProbeTime) == Lines{"send 1 failed 1.2.3.4:5555"});
  BOOST_TEST(peer.answered("1.2.3.4:7000", 'a') == Lines{});
  BOOST_TEST((peer.last_answer.purpose == Answered::Purpose::close));
}

BOOST_AUTO_TEST_CASE(who_asks_too_often_is_told_busy) {
  Script peer;
  peer.linked(1, 'a', "1.2.3.4:5555");
  BOOST_TEST(peer.hears(1, DialBack{1, 1}) == Lines{"dial 1.2.3.4:1 direct"});
  BOOST_TEST(peer.hears(1, DialBack{2, 2}) == Lines{"dial 1.2.3.4:2 direct"});
  BOOST_TEST(peer.hears(1, DialBack{3, 3}) == Lines{"send 1 busy 1.2.3.4:5555"});
  peer.wait(10s);
  peer.tell(DialFailed{"1.2.3.4:1", "refused"});
  BOOST_TEST(peer.hears(1, DialBack{4, 4}) == Lines{"dial 1.2.3.4:4 direct"});
}

BOOST_AUTO_TEST_CASE(all_together_cannot_make_it_dial_more_than_a_few_at_once) {
  Script peer;
  std::size_t dials = 0;
  for (std::uint32_t i = 1; i <= 60; ++i) {
    peer.linked(i, static_cast<char>('A' + i), "1.2.3.4:5555");
    for (const std::string& line : peer.hears(i, DialBack{i, 7000})) {
      dials += line.starts_with("dial") ? 1 : 0;
    }
  }
  BOOST_TEST(dials == kProbesMax);
}

BOOST_AUTO_TEST_CASE(whose_address_is_not_seen_is_not_dialed) {
  Script peer;
  peer.linked(1, 'a', "");
  peer.linked(2, 'b', "1.2.3.4:1", 1);  // over a circuit
  BOOST_TEST(peer.hears(1, DialBack{1, 7000}) == Lines{"send 1 busy "});
  BOOST_TEST(peer.hears(2, DialBack{1, 7000}) == Lines{"send 2 busy 1.2.3.4:1"});
}

BOOST_AUTO_TEST_SUITE_END()
