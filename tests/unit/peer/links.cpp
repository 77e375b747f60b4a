#include "peer/links.hpp"

#include <utility>
#include <variant>
#include <vector>

#include <boost/test/unit_test.hpp>

#include "bench.hpp"

using namespace starling;
using namespace starling::peer;
using namespace starling::peer::testing;

namespace {

constexpr base::LinkId kFirst{1, 1};
constexpr base::LinkId kSecond{2, 1};

Config tracked() {
  Config config = bench_config();
  config.exchange.mode = exchange::Mode::tracked;
  return config;
}

void link_up(Bench& bench, base::LinkId link, std::uint8_t peer, bool dialed = false) {
  LinkUp event{link, bench_peer(peer), dialed, "given:1"};
  bench.links.on(event, kBenchBegin, bench.out);
}

void receive(Bench& bench, base::LinkId link, wire::Message message) {
  Received event{link, std::move(message)};
  bench.links.on(event, kBenchBegin, bench.out);
}

wire::Hello hello_of(std::uint8_t peer, wire::RunId run = {}) {
  wire::Hello hello;
  hello.run = run;
  hello.self = bench_record(peer);
  return hello;
}

wire::RunId run_of(std::uint8_t number) {
  wire::RunId run;
  run.bytes.fill(number);
  return run;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(links)

BOOST_AUTO_TEST_CASE(a_hello_of_the_same_run_makes_a_link_ready) {
  Bench bench(tracked());
  link_up(bench, kFirst, 2);
  BOOST_TEST(bench.told<wire::Hello>().size() == 1U);
  receive(bench, kFirst, hello_of(2));
  BOOST_TEST(bench.count<Accept>() == 1U);
  BOOST_TEST(bench.links.find(kFirst)->ready);
  BOOST_REQUIRE(bench.for_membership.size() == 1U);
  BOOST_TEST(std::holds_alternative<membership::LinkReady>(bench.for_membership.front()));
  BOOST_TEST(bench.for_reach.size() == 1U);
}

BOOST_AUTO_TEST_CASE(a_stranger_of_another_run_is_refused_with_the_own_run_file) {
  Bench bench(tracked());
  link_up(bench, kFirst, 2);
  receive(bench, kFirst, hello_of(2, run_of(9)));
  BOOST_TEST(bench.told<wire::Refuse>().size() == 1U);
  BOOST_TEST(bench.count<Close>() == 1U);
  BOOST_TEST(bench.for_membership.empty());
}

BOOST_AUTO_TEST_CASE(who_joins_leaves_the_refusal_to_the_other_end) {
  Bench bench(tracked());
  link_up(bench, kFirst, 2, true);
  receive(bench, kFirst, hello_of(2, run_of(9)));
  BOOST_TEST(bench.told<wire::Refuse>().empty());
  BOOST_TEST(bench.count<Close>() == 0U);
  receive(bench, kFirst, wire::Refuse{wire::RefuseReason::other_run, "no", "canonical"});
  BOOST_TEST(bench.count<Refused>() == 1U);
  BOOST_REQUIRE(bench.finished());
  BOOST_TEST((bench.finished()->error.code == base::ErrorCode::run_file));
}

BOOST_AUTO_TEST_CASE(nothing_but_a_hello_is_taken_from_a_new_link) {
  Bench bench(tracked());
  link_up(bench, kFirst, 2);
  receive(bench, kFirst, wire::Bye{});
  BOOST_TEST(bench.count<Close>() == 1U);
  BOOST_TEST(bench.for_membership.empty());
}

BOOST_AUTO_TEST_CASE(a_hello_in_the_name_of_another_ends_the_link) {
  Bench bench(tracked());
  link_up(bench, kFirst, 2);
  receive(bench, kFirst, hello_of(3));
  BOOST_TEST(bench.count<Close>() == 1U);
  BOOST_TEST(bench.count<Accept>() == 0U);
}

BOOST_AUTO_TEST_CASE(a_link_without_a_hello_is_closed_once) {
  Bench bench(tracked());
  link_up(bench, kFirst, 2);
  bench.links.close_silent(kBenchBegin, bench.out);
  BOOST_TEST(bench.count<Close>() == 0U);
  for (int i = 0; i < 2; ++i) bench.links.close_silent(kBenchBegin + kHelloTimeout, bench.out);
  BOOST_TEST(bench.count<Close>() == 1U);
}

BOOST_AUTO_TEST_CASE(a_link_of_a_peer_with_itself_is_closed_and_its_dial_fails) {
  Bench bench(tracked());
  link_up(bench, kFirst, 1, true);
  BOOST_TEST(bench.count<Close>() == 1U);
  BOOST_TEST(bench.links.count() == 0U);
  BOOST_REQUIRE(bench.for_reach.size() == 1U);
  BOOST_TEST(std::get<reach::DialFailed>(bench.for_reach.front()).own);
}

BOOST_AUTO_TEST_CASE(gradients_that_were_not_asked_for_ban_their_peer) {
  Bench bench(tracked());
  link_up(bench, kFirst, 2);
  receive(bench, kFirst, hello_of(2));
  receive(bench, kFirst, wire::ReduceReceived{});
  BOOST_TEST(bench.for_agreement.empty());
  const auto& lost = std::get<membership::LinkLost>(bench.for_membership.back());
  BOOST_TEST((lost.reason == membership::LossReason::banned));
}

BOOST_AUTO_TEST_CASE(deltas_of_a_member_that_is_no_neighbour_are_left_alone) {
  Bench bench(tracked());
  link_up(bench, kFirst, 2);
  receive(bench, kFirst, hello_of(2));
  receive(bench, kFirst, wire::Delta{});
  BOOST_TEST(bench.for_agreement.empty());
  bench.neighbours.add(bench_peer(2), kFirst);
  receive(bench, kFirst, wire::Delta{});
  BOOST_TEST(bench.for_agreement.size() == 1U);
}

BOOST_AUTO_TEST_CASE(a_relay_says_hello_on_all_links_once_it_has_heard_one) {
  Bench bench(tracked(), true);
  link_up(bench, kFirst, 2);
  link_up(bench, kSecond, 3);
  BOOST_TEST(bench.told<wire::Hello>().empty());
  receive(bench, kSecond, hello_of(3, run_of(9)));
  BOOST_TEST((bench.told<wire::Hello>() == std::vector{kFirst, kSecond}));
  BOOST_TEST((bench.links.run().id() == run_of(9)));
  BOOST_TEST(bench.told<wire::RunFileRequest>().size() == 1U);
}

BOOST_AUTO_TEST_SUITE_END()
