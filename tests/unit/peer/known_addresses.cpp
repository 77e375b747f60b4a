#include "peer/known_addresses.hpp"

#include <string>
#include <vector>

#include <boost/test/unit_test.hpp>

#include "membership/limits.hpp"

using namespace starling;
using namespace std::chrono_literals;
using peer::KnownAddresses;

namespace {

using Addresses = std::vector<std::string>;

Addresses numbered(const std::string& name, std::size_t count) {
  Addresses addresses;
  for (std::size_t i = 0; i < count; ++i) addresses.push_back(name + std::to_string(i) + ":1");
  return addresses;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(known_addresses)

BOOST_AUTO_TEST_CASE(others_are_looked_for_at_each_address_once_and_where_a_person_said_first) {
  const KnownAddresses known({"a:1", "b:1"}, {"c:1", "b:1", "c:1"});
  BOOST_TEST(known.all() == (Addresses{"a:1", "b:1", "c:1"}));
  BOOST_TEST(known.was_given("b:1"));
  BOOST_TEST(!known.was_given("c:1"));
  BOOST_TEST(!known.was_given("d:1"));
}

BOOST_AUTO_TEST_CASE(what_a_person_gave_leaves_room_for_few_of_a_former_life) {
  const Addresses given = numbered("given-", membership::kJoinMax - 1);
  const Addresses all = KnownAddresses(given, {"a:1", "b:1"}).all();
  BOOST_REQUIRE(all.size() == membership::kJoinMax);
  BOOST_TEST(all.back() == "a:1");
}

BOOST_AUTO_TEST_CASE(the_first_failure_of_each_given_address_is_news) {
  KnownAddresses known({"a:1", "b:1"}, {"c:1"});
  BOOST_TEST(known.note_failure("a:1"));
  BOOST_TEST(!known.note_failure("a:1"));
  BOOST_TEST(known.note_failure("b:1"));
  BOOST_TEST(!known.note_failure("c:1"));
}

BOOST_AUTO_TEST_CASE(who_is_turned_away_at_all_given_addresses_is_told_at_the_last_of_them) {
  KnownAddresses known({"a:1", "b:1"}, {"c:1"});
  BOOST_TEST(!known.note_turned_away("a:1"));
  BOOST_TEST(!known.note_turned_away("a:1"));
  BOOST_TEST(!known.note_turned_away("c:1"));
  BOOST_TEST(known.note_turned_away("b:1"));
  BOOST_TEST(!known.note_turned_away("c:1"));
}

BOOST_AUTO_TEST_CASE(a_changed_table_is_looked_at_once_in_a_while) {
  KnownAddresses known({}, {});
  const base::Time begin{100s};
  BOOST_TEST(known.may_have_moved(7, begin));
  BOOST_TEST(!known.may_have_moved(8, begin + peer::kRememberEvery - 1ns));
  BOOST_TEST(known.may_have_moved(8, begin + peer::kRememberEvery));
  BOOST_TEST(!known.may_have_moved(8, begin + 10 * peer::kRememberEvery));
}

BOOST_AUTO_TEST_CASE(who_was_not_met_again_is_remembered_behind_those_that_were) {
  KnownAddresses known({"given:1"}, {"a:1", "b:1"});
  BOOST_TEST((known.remember({"b:1", "c:1"}) == Addresses{"b:1", "c:1", "a:1"}));
  BOOST_TEST(!known.remember({"b:1", "c:1"}));
  BOOST_TEST((known.remember({"a:1", "c:1"}) == Addresses{"a:1", "c:1", "b:1"}));
}

BOOST_AUTO_TEST_CASE(what_the_former_life_was_told_need_not_be_told_again) {
  KnownAddresses known({}, {"a:1", "b:1"});
  BOOST_TEST(!known.remember({}));
  BOOST_TEST(!known.remember({"a:1"}));
}

BOOST_AUTO_TEST_CASE(no_more_is_remembered_than_a_peer_saves) {
  KnownAddresses known({}, {"former:1"});
  const Addresses others = numbered("other-", membership::kRememberedMax);
  BOOST_TEST((known.remember(others) == others));
  base::Bounds bounds;
  known.add_bounds(bounds);
  BOOST_TEST(!bounds.broken());
}

BOOST_AUTO_TEST_SUITE_END()
