#include "exchange/history.hpp"

#include <boost/test/unit_test.hpp>

#include "transcript.hpp"

using namespace starling::exchange;
using namespace starling::exchange::test;

namespace {

Options restarted_at(double progress) {
  Options options = plain_options();
  options.has_state = true;
  options.samples = 1000;
  options.progress = progress;
  return options;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(history)

BOOST_AUTO_TEST_CASE(a_newcomer_may_adopt_until_it_has_made_a_beginning_of_the_run_by_itself) {
  History peer(plain_options());  // of a million samples
  BOOST_TEST(peer.may_adopt());
  peer.on({{1}, 20'000, 0.02}, 1);
  BOOST_TEST(peer.may_adopt());
  peer.on({{2}, 20'001, 0.02}, 1);
  BOOST_TEST(!peer.may_adopt());
}

BOOST_AUTO_TEST_CASE(a_replica_that_others_mix_with_is_not_given_up) {
  History peer(plain_options());
  peer.mix();
  BOOST_TEST(!peer.may_adopt());
  peer.hear(0.9);
  BOOST_TEST(!peer.may_adopt());
}

BOOST_AUTO_TEST_CASE(who_has_a_link_at_the_start_of_the_run_counts_as_mixed_and_others_do_not) {
  History inside(plain_options());
  inside.on({{1}, 32, 0.03}, 1);
  BOOST_TEST(inside.is_mixed());
  History alone(plain_options());
  alone.on({{1}, 32, 0.03}, 0);
  BOOST_TEST(!alone.is_mixed());
  History late(plain_options());
  late.on({{1}, 32, 0.5}, 1);
  BOOST_TEST(!late.is_mixed());
}

BOOST_AUTO_TEST_CASE(a_checkpoint_is_given_up_when_the_swarm_has_gone_on_by_more_than_a_quarter) {
  History peer(restarted_at(0.1));
  peer.hear(0.35);
  BOOST_TEST(!peer.may_adopt());
  peer.hear(0.36);
  BOOST_TEST(peer.may_adopt());
  BOOST_TEST(peer.known_progress() == 0.36);
  peer.hear(0.2);  // of one who knows less
  BOOST_TEST(peer.known_progress() == 0.36);
  BOOST_TEST(peer.progress() == 0.1);
}

BOOST_AUTO_TEST_CASE(a_restart_is_fresh_until_its_first_step_or_until_others_mix_with_it) {
  History peer(restarted_at(0.5));
  BOOST_TEST(peer.is_fresh_restart());
  peer.on({{1}, 1032, 0.5}, 0);
  BOOST_TEST(!peer.is_fresh_restart());
  History other(restarted_at(0.5));
  other.mix();
  BOOST_TEST(!other.is_fresh_restart());
  BOOST_TEST(!History(plain_options()).is_fresh_restart());
}

BOOST_AUTO_TEST_CASE(a_bystander_is_who_would_adopt_and_never_had_a_link) {
  History peer(plain_options());
  BOOST_TEST(peer.never_joined());
  peer.on_link_open();
  BOOST_TEST(!peer.never_joined());
  BOOST_TEST(!History(restarted_at(0.5)).never_joined());
}

BOOST_AUTO_TEST_SUITE_END()
