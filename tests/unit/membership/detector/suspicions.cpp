#include "membership/detector/suspicions.hpp"

#include <boost/test/unit_test.hpp>

#include "membership/detector/flap_damper.hpp"
#include "membership/detector/local_health.hpp"
#include "membership/limits.hpp"

using namespace starling;
using namespace std::chrono_literals;
using membership::FlapDamper;
using membership::LocalHealth;
using membership::Suspicions;
using wire::DeathReason;

namespace {

constexpr base::Time kBegin{std::chrono::seconds(100)};
const base::PeerId kPeer{{1}};

}  // namespace

BOOST_AUTO_TEST_SUITE(suspicions)

BOOST_AUTO_TEST_CASE(more_accusers_end_it_sooner_and_one_counts_once) {
  Suspicions suspicions;
  BOOST_TEST(suspicions.accuse(kPeer, 1, DeathReason::silent, 64, 1s, kBegin));
  BOOST_TEST((suspicions.next_end() == kBegin + membership::kSuspicionBeatsMax * 1s));
  BOOST_TEST(!suspicions.accuse(kPeer, 1, DeathReason::reset, 64, 1s, kBegin + 1s));
  base::Time last = *suspicions.next_end();
  for (std::uint64_t by = 2; by <= membership::kAccusersMax; ++by) {
    BOOST_TEST(suspicions.accuse(kPeer, by, DeathReason::reset, 64, 1s, kBegin));
    BOOST_TEST((*suspicions.next_end() < last));
    last = *suspicions.next_end();
  }
  BOOST_TEST((last == kBegin + membership::kSuspicionBeatsMin * 1s));
  BOOST_TEST(!suspicions.accuse(kPeer, 99, DeathReason::reset, 64, 1s, kBegin));
  BOOST_TEST(suspicions.take_ended(last - 1ms).empty());
  const auto ended = suspicions.take_ended(last);
  BOOST_REQUIRE(ended.size() == 1);
  BOOST_TEST((ended[0].reason == DeathReason::silent));
  BOOST_TEST(!suspicions.next_end().has_value());
}

BOOST_AUTO_TEST_CASE(those_that_are_open_are_named_from_any_peer_on_with_their_first_accusers) {
  Suspicions suspicions;
  for (std::uint8_t i = 1; i <= 3; ++i) {
    for (std::uint64_t by = i; by <= 4; ++by) {
      (void)suspicions.accuse({{i}}, by, DeathReason::silent, 64, 1s, kBegin);
    }
  }
  const auto named = suspicions.open_from({{2}}, 2);
  BOOST_REQUIRE(named.size() == 2U);
  BOOST_TEST((named[0].peer == base::PeerId{{2}} && named[1].peer == base::PeerId{{3}}));
  BOOST_TEST((named[0].by == 2U && named[1].by == 3U));
  BOOST_TEST((suspicions.open_from({{3}}, 9)[1].peer == base::PeerId{{1}}));
  BOOST_TEST(suspicions.open_from({{4}}, 9).size() == 3U);
}

BOOST_AUTO_TEST_CASE(when_all_link_partners_accuse_one_beat_is_left) {
  Suspicions suspicions;
  (void)suspicions.accuse(kPeer, 1, DeathReason::none, 2, 1s, kBegin);
  (void)suspicions.accuse(kPeer, 2, DeathReason::refused, 2, 1s, kBegin + 200ms);
  BOOST_TEST((suspicions.next_end() == kBegin + 1200ms));
  BOOST_TEST((suspicions.take_ended(kBegin + 2s).at(0).reason == DeathReason::refused));
}

BOOST_AUTO_TEST_CASE(a_peer_in_bad_health_waits_longer) {
  LocalHealth health;
  BOOST_TEST(health.factor() == 1);
  for (int i = 0; i < 100; ++i) health.worse();
  BOOST_TEST(health.factor() == membership::kHealthMax + 1);
  Suspicions suspicions;
  (void)suspicions.accuse(kPeer, 1, DeathReason::silent, 64, health.factor() * 1s, kBegin);
  BOOST_TEST((suspicions.next_end() == kBegin + 9 * membership::kSuspicionBeatsMax * 1s));
  for (int i = 0; i < 100; ++i) health.better();
  BOOST_TEST(health.factor() == 1);
}

BOOST_AUTO_TEST_CASE(the_verdict_of_another_leaves_a_beat_and_no_less_than_all_accusers_do) {
  Suspicions suspicions;
  BOOST_TEST(!suspicions.shorten_for_verdict(kPeer, 1s, kBegin));
  BOOST_TEST(suspicions.accuse(kPeer, 1, DeathReason::silent, 64, 4s, kBegin));
  BOOST_TEST(suspicions.shorten_for_verdict(kPeer, 1s, kBegin));
  BOOST_TEST((suspicions.next_end() == kBegin + membership::kSuspicionBeatsMin * 1s));
  BOOST_TEST(!suspicions.shorten_for_verdict(kPeer, 1s, kBegin + 1s));
  BOOST_TEST(suspicions.take_ended(kBegin + 2s).size() == 1U);
  BOOST_TEST(suspicions.accuse(kPeer, 1, DeathReason::silent, 64, 4s, kBegin));
  BOOST_TEST(suspicions.shorten_for_verdict(kPeer, 1s, kBegin + 5s));
  BOOST_TEST((suspicions.next_end() == kBegin + 6s));
}

BOOST_AUTO_TEST_CASE(the_first_return_is_believed_and_further_ones_ever_later) {
  FlapDamper damper;
  wire::MemberRecord record{.id = kPeer, .incarnation = 2};
  BOOST_TEST(!damper.hold_back(record, kBegin));
  damper.died(record, 50, kBegin);
  BOOST_TEST(!damper.hold_back(record, kBegin + 1s));
  damper.died(record, 50, kBegin + 10s);
  BOOST_TEST(damper.hold_back(record, kBegin + 11s));
  record.incarnation = 3;
  BOOST_TEST(damper.hold_back(record, kBegin + 20s));
  BOOST_TEST((damper.next_due() == kBegin + 10s + membership::kHoldMin));
  BOOST_TEST(damper.take_due(kBegin + 60s).empty());
  const auto due = damper.take_due(kBegin + 70s);
  BOOST_REQUIRE(due.size() == 1);
  BOOST_TEST(due[0].incarnation == 3U);
  BOOST_TEST(!damper.next_due().has_value());
  damper.died(record, 50, kBegin + 100s);
  BOOST_TEST(damper.hold_back(record, kBegin + 219s));
  BOOST_TEST(!damper.hold_back(record, kBegin + 220s));
}

BOOST_AUTO_TEST_CASE(who_is_gone_is_not_waited_for_unless_its_return_is_newer) {
  FlapDamper damper;
  wire::MemberRecord record{.id = kPeer, .incarnation = 2};
  damper.died(record, 50, kBegin);
  damper.died(record, 50, kBegin + 10s);
  record.incarnation = 3;
  BOOST_TEST(damper.hold_back(record, kBegin + 11s));
  record.incarnation = 2;
  record.state = wire::MemberState::dead;
  damper.gone(record);
  BOOST_TEST(damper.waits(kPeer));
  record.incarnation = 3;
  record.state = wire::MemberState::left;
  damper.gone(record);
  BOOST_TEST(!damper.waits(kPeer));
  BOOST_TEST(!damper.next_due().has_value());
}

BOOST_AUTO_TEST_CASE(in_a_large_swarm_a_refuted_death_and_the_next_one_wait) {
  FlapDamper damper;
  const wire::MemberRecord died{.id = kPeer, .incarnation = 1'000};
  const wire::MemberRecord refuted{.id = kPeer, .incarnation = 1'001};
  const wire::MemberRecord restarted{.id = kPeer, .incarnation = 1'100};
  damper.died(died, membership::kLargeSwarm, kBegin);
  BOOST_TEST(!damper.hold_back(restarted, kBegin + 5s));
  BOOST_TEST(damper.hold_back(refuted, kBegin + 5s));
  BOOST_TEST(damper.take_due(kBegin + membership::kHoldMin - 1s).empty());
  const base::Time back = kBegin + membership::kHoldMin;
  BOOST_TEST(damper.take_due(back).size() == 1U);
  damper.returned(refuted, back);
  BOOST_TEST((damper.immune_until(kPeer) == back + membership::kHoldMin));

  Suspicions suspicions;
  BOOST_TEST(suspicions.accuse(kPeer, 1, DeathReason::silent, 64, 1s, back + 1s,
                               damper.immune_until(kPeer)));
  BOOST_TEST((suspicions.next_end() == back + membership::kHoldMin));
}

BOOST_AUTO_TEST_CASE(deaths_of_half_the_swarm_are_of_a_cut_and_hold_nobody_back) {
  FlapDamper damper;
  const wire::MemberRecord flapping{.id = kPeer, .incarnation = 2};
  damper.died(flapping, 7, kBegin);
  damper.died(flapping, 7, kBegin + 100s);
  BOOST_TEST(damper.hold_back(flapping, kBegin + 101s));
  for (int turn = 0; turn < 5; ++turn) {
    const base::Time now = kBegin + 110s + turn * 40s;
    for (std::uint8_t i = 1; i <= 4; ++i) {
      damper.died({.id = base::PeerId{{i}}, .incarnation = 1}, 8U - i, now);
    }
    for (std::uint8_t i = 1; i <= 4; ++i) {
      const wire::MemberRecord back{.id = base::PeerId{{i}}, .incarnation = 2};
      BOOST_TEST(!damper.hold_back(back, now + 20s), "turn " << turn << " peer " << int{i});
    }
    if (turn == 0) BOOST_TEST(damper.take_due(now).size() == 1U);  // that was waiting
  }
  damper.died(flapping, 7, kBegin + 500s);
  BOOST_TEST(damper.hold_back(flapping, kBegin + 501s));
}

BOOST_AUTO_TEST_SUITE_END()
