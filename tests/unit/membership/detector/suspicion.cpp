#include "membership/detector/suspicion.hpp"

#include <boost/test/unit_test.hpp>

#include "membership/detector/local_health.hpp"
#include "membership/limits.hpp"

using namespace starling;
using namespace std::chrono_literals;
using membership::LocalHealth;
using membership::Suspicion;
using wire::DeathReason;

namespace {

constexpr base::Time kBegin{std::chrono::seconds(100)};

}  // namespace

BOOST_AUTO_TEST_SUITE(suspicion)

BOOST_AUTO_TEST_CASE(more_accusers_end_it_sooner_and_one_counts_once) {
  Suspicion suspicion(kBegin, {});
  BOOST_TEST(suspicion.accuse(1, DeathReason::silent, 64, 1s, kBegin));
  BOOST_TEST((suspicion.ends() == kBegin + membership::kSuspicionBeatsMax * 1s));
  BOOST_TEST(!suspicion.accuse(1, DeathReason::reset, 64, 1s, kBegin + 1s));
  base::Time last = suspicion.ends();
  for (std::uint64_t by = 2; by <= membership::kAccusersMax; ++by) {
    BOOST_TEST(suspicion.accuse(by, DeathReason::reset, 64, 1s, kBegin));
    BOOST_TEST((suspicion.ends() < last));
    last = suspicion.ends();
  }
  BOOST_TEST((last == kBegin + membership::kSuspicionBeatsMin * 1s));
  BOOST_TEST(!suspicion.accuse(99, DeathReason::reset, 64, 1s, kBegin));
  BOOST_TEST((suspicion.reason() == DeathReason::silent));
  BOOST_TEST(suspicion.first_accuser() == 1U);
}

BOOST_AUTO_TEST_CASE(when_all_link_partners_accuse_one_beat_is_left) {
  Suspicion suspicion(kBegin, {});
  (void)suspicion.accuse(1, DeathReason::none, 2, 1s, kBegin);
  (void)suspicion.accuse(2, DeathReason::refused, 2, 1s, kBegin + 200ms);
  BOOST_TEST((suspicion.ends() == kBegin + 1200ms));
  BOOST_TEST((suspicion.reason() == DeathReason::refused));
}

BOOST_AUTO_TEST_CASE(a_peer_in_bad_health_waits_longer) {
  LocalHealth health;
  BOOST_TEST(health.factor() == 1);
  for (int i = 0; i < 100; ++i) health.worse();
  BOOST_TEST(health.factor() == membership::kHealthMax + 1);
  Suspicion suspicion(kBegin, {});
  (void)suspicion.accuse(1, DeathReason::silent, 64, health.factor() * 1s, kBegin);
  BOOST_TEST((suspicion.ends() == kBegin + 9 * membership::kSuspicionBeatsMax * 1s));
  for (int i = 0; i < 100; ++i) health.better();
  BOOST_TEST(health.factor() == 1);
}

BOOST_AUTO_TEST_CASE(the_verdict_of_another_leaves_a_beat_and_no_less_than_all_accusers_do) {
  Suspicion early(kBegin, {});
  BOOST_TEST(early.accuse(1, DeathReason::silent, 64, 4s, kBegin));
  BOOST_TEST(early.shorten_for_verdict(1s, kBegin));
  BOOST_TEST((early.ends() == kBegin + membership::kSuspicionBeatsMin * 1s));
  BOOST_TEST(!early.shorten_for_verdict(1s, kBegin + 1s));
  Suspicion late(kBegin, {});
  BOOST_TEST(late.accuse(1, DeathReason::silent, 64, 4s, kBegin));
  BOOST_TEST(late.shorten_for_verdict(1s, kBegin + 5s));
  BOOST_TEST((late.ends() == kBegin + 6s));
}

BOOST_AUTO_TEST_CASE(who_is_immune_has_until_then_whatever_comes) {
  Suspicion suspicion(kBegin, kBegin + 60s);
  BOOST_TEST(suspicion.accuse(1, DeathReason::silent, 1, 1s, kBegin));
  BOOST_TEST((suspicion.ends() == kBegin + 60s));
  BOOST_TEST(!suspicion.shorten_for_verdict(1s, kBegin));
}

BOOST_AUTO_TEST_SUITE_END()
