#include "membership/detector/flaps.hpp"

#include <boost/test/unit_test.hpp>

#include "membership/limits.hpp"

using namespace starling;
using namespace std::chrono_literals;
using membership::Flaps;

namespace {

constexpr base::Time kFirstDeath{std::chrono::seconds(100)};

wire::MemberRecord of_incarnation(std::uint64_t incarnation) {
  return {.id = base::PeerId{{1}}, .incarnation = incarnation};
}

}  // namespace

BOOST_AUTO_TEST_SUITE(flaps)

BOOST_AUTO_TEST_CASE(the_first_return_is_believed_and_further_ones_ever_later) {
  Flaps flaps;
  const wire::MemberRecord record = of_incarnation(2);
  BOOST_TEST(!flaps.holds_back(record, kFirstDeath));
  flaps.died(record, false, kFirstDeath);
  BOOST_TEST(!flaps.holds_back(record, kFirstDeath + 1s));
  flaps.died(record, false, kFirstDeath + 10s);
  BOOST_TEST(flaps.holds_back(record, kFirstDeath + 11s));
  BOOST_TEST((flaps.ends() == kFirstDeath + 10s + membership::kHoldMin));
  flaps.died(record, false, kFirstDeath + 100s);
  BOOST_TEST(flaps.holds_back(record, kFirstDeath + 219s));
  BOOST_TEST(!flaps.holds_back(record, kFirstDeath + 220s));
}

BOOST_AUTO_TEST_CASE(deaths_of_long_ago_do_not_count) {
  Flaps flaps;
  const wire::MemberRecord record = of_incarnation(2);
  flaps.died(record, false, kFirstDeath);
  const base::Time later = kFirstDeath + membership::kFlapMemory + 1s;
  flaps.died(record, false, later);
  BOOST_TEST(!flaps.holds_back(record, later + 1s));
}

BOOST_AUTO_TEST_CASE(in_a_large_swarm_a_refuted_death_and_the_next_one_wait) {
  Flaps flaps;
  flaps.died(of_incarnation(1'000), true, kFirstDeath);
  BOOST_TEST(!flaps.holds_back(of_incarnation(1'100), kFirstDeath + 5s));  // a new process
  BOOST_TEST(flaps.holds_back(of_incarnation(1'001), kFirstDeath + 5s));
  const base::Time back = kFirstDeath + membership::kHoldMin;
  BOOST_TEST((flaps.ends() == back));
  flaps.returned(of_incarnation(1'001), back);
  BOOST_TEST((flaps.immune_until() == back + membership::kHoldMin));
}

BOOST_AUTO_TEST_CASE(a_death_by_a_cut_holds_nobody_back) {
  Flaps flaps;
  const wire::MemberRecord record = of_incarnation(2);
  flaps.died(record, false, kFirstDeath);
  flaps.died(record, false, kFirstDeath + 40s);
  flaps.discount();
  BOOST_TEST(!flaps.holds_back(record, kFirstDeath + 60s));
  flaps.died(record, false, kFirstDeath + 100s);  // in place of that one
  BOOST_TEST(flaps.holds_back(record, kFirstDeath + 101s));
}

BOOST_AUTO_TEST_SUITE_END()
