#include "peer/rates.hpp"

#include <string>
#include <vector>

#include <boost/test/unit_test.hpp>

using namespace starling;
using membership::MemberTable;
using train::Optimizer;

namespace {

wire::MemberRecord member_of(std::uint8_t number, std::uint32_t batch, float lr,
                             wire::MemberState state = wire::MemberState::alive) {
  return {.id = {{number}},
          .name = "peer-" + std::to_string(number),
          .incarnation = 1,
          .state = state,
          .batch = batch,
          .lr = lr};
}

MemberTable table_of(const std::vector<wire::MemberRecord>& members) {
  MemberTable table(members.front());
  for (const wire::MemberRecord& record : members) (void)table.apply(record);
  return table;
}

double factor(const std::vector<std::uint32_t>& batches, Optimizer optimizer = Optimizer::sgd) {
  std::vector<wire::MemberRecord> members;
  std::uint8_t number = 0;
  for (const std::uint32_t batch : batches) members.push_back(member_of(++number, batch, 0));
  return peer::rate_factor(table_of(members), {.optimizer = optimizer}, batches.front());
}

}  // namespace

BOOST_AUTO_TEST_SUITE(rates)

BOOST_AUTO_TEST_CASE(a_smaller_batch_than_that_of_most_has_a_lower_rate) {
  BOOST_TEST(factor({4, 64, 64, 64}) == 1.0 / 16);
  BOOST_TEST(factor({4, 64, 64, 64}, Optimizer::adamw) == 0.25);
  BOOST_TEST(factor({4, 64, 64, 64}, Optimizer::muon) == 0.25);
  BOOST_TEST(factor({4, 64}) == 1.0 / 16);
}

BOOST_AUTO_TEST_CASE(no_rate_is_raised) {
  BOOST_TEST(factor({64, 64, 64, 4}) == 1.0);
  BOOST_TEST(factor({64, 4}) == 1.0);
  BOOST_TEST(factor({256, 64, 64}) == 1.0);
  BOOST_TEST(factor({64}) == 1.0);
}

BOOST_AUTO_TEST_CASE(members_that_are_gone_or_tell_nothing_do_not_count) {
  const MemberTable table = table_of({member_of(1, 16, 0.1F), member_of(2, 0, 0),
                                      member_of(3, 64, 5.0F, wire::MemberState::dead)});
  BOOST_TEST(peer::rate_factor(table, {}, 16) == 1.0);
  BOOST_TEST(!peer::median_rate(table, false));
  BOOST_TEST(*peer::median_rate(table, true) == 0.1, boost::test_tools::tolerance(1e-6));
}

BOOST_AUTO_TEST_CASE(a_rate_far_from_that_of_most_is_refused_unless_it_is_meant) {
  const MemberTable table =
      table_of({member_of(1, 16, 5.0F), member_of(2, 16, 0.1F), member_of(3, 16, 0.1F)});
  const auto refusal = peer::refuse_rate(table, {.lr = 5.0});
  BOOST_REQUIRE(refusal);
  BOOST_TEST(refusal->text.find("train.lr is 5 here and 0.1") != std::string::npos);
  BOOST_TEST(refusal->text.find("train.lr_differs") != std::string::npos);
  BOOST_TEST(!peer::refuse_rate(table, {.lr = 5.0, .lr_differs = true}));
  BOOST_TEST(!peer::refuse_rate(table, {.lr = 2.9}));
  BOOST_TEST(peer::refuse_rate(table, {.lr = 0.003}).has_value());
  BOOST_TEST(!peer::refuse_rate(table_of({member_of(1, 16, 5.0F)}), {.lr = 5.0}));
}

BOOST_AUTO_TEST_SUITE_END()
