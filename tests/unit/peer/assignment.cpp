#include "peer/assignment.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include <boost/test/unit_test.hpp>

using namespace starling;
using membership::MemberTable;
using peer::Assignment;

namespace {

wire::MemberRecord member_of(std::uint8_t number, float speed,
                             wire::MemberState state = wire::MemberState::alive) {
  return {.id = {{number}},
          .name = "peer-" + std::to_string(number),
          .incarnation = 1,
          .state = state,
          .speed = speed};
}

MemberTable table_of(const std::vector<wire::MemberRecord>& members, std::size_t self) {
  MemberTable table(members[self]);
  for (const wire::MemberRecord& record : members) (void)table.apply(record);
  return table;
}

const data::Shards& all_shards() {
  static const data::Shards all(10'000, {}, {.shards = 1000}, 1);
  return all;
}

Assignment assignment_in(const std::vector<wire::MemberRecord>& members, std::size_t self,
                         std::uint32_t batch_min = 0) {
  return peer::assignment_of(table_of(members, self), all_shards(),
                             {.batch = 16, .batch_min = batch_min});
}

std::size_t owned_by(const std::vector<wire::MemberRecord>& members, std::size_t self) {
  return assignment_in(members, self).shards.size();
}

}  // namespace

BOOST_AUTO_TEST_SUITE(assignment)

BOOST_AUTO_TEST_CASE(each_shard_has_one_owner_of_those_that_count_as_alive) {
  const std::vector members{
      member_of(1, 0), member_of(2, 0), member_of(3, 0, wire::MemberState::suspect),
      member_of(4, 0, wire::MemberState::dead), member_of(5, 0, wire::MemberState::left)};
  std::vector<std::uint32_t> all;
  for (const std::size_t self : {0, 1, 2}) {
    const Assignment part = assignment_in(members, self);
    BOOST_TEST(part.batch == 16U);
    BOOST_TEST(part.shards.size() > 250U);
    all.insert(all.end(), part.shards.begin(), part.shards.end());
  }
  std::ranges::sort(all);
  BOOST_TEST(all.size() == all_shards().count());
  BOOST_TEST((std::ranges::adjacent_find(all) == all.end()));
}

BOOST_AUTO_TEST_CASE(who_is_faster_owns_more_and_who_has_not_measured_it_counts_as_the_mean) {
  BOOST_TEST(owned_by({member_of(1, 10), member_of(2, 30)}, 0) < 350U);
  BOOST_TEST(owned_by({member_of(1, 10), member_of(2, 30)}, 0) > 150U);
  const std::vector unmeasured{member_of(1, 10), member_of(2, 30), member_of(3, 0)};
  const std::vector mean{member_of(1, 10), member_of(2, 30), member_of(3, 20)};
  for (const std::size_t self : {0, 1, 2}) {
    BOOST_TEST((assignment_in(unmeasured, self) == assignment_in(mean, self)));
  }
}

BOOST_AUTO_TEST_CASE(a_slower_peer_takes_as_long_for_a_step_as_the_median_member) {
  const std::vector members{member_of(1, 10), member_of(2, 40), member_of(3, 40), member_of(4, 80)};
  BOOST_TEST(assignment_in(members, 0).batch == 16U);
  BOOST_TEST(assignment_in(members, 0, 2).batch == 4U);
  BOOST_TEST(assignment_in(members, 0, 6).batch == 6U);
  for (const std::size_t self : {1, 3}) BOOST_TEST(assignment_in(members, self, 2).batch == 16U);
}

BOOST_AUTO_TEST_CASE(who_has_not_measured_its_speed_takes_whole_batches) {
  BOOST_TEST(assignment_in({member_of(1, 0), member_of(2, 40)}, 0, 2).batch == 16U);
}

BOOST_AUTO_TEST_SUITE_END()
