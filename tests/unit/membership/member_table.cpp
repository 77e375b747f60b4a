#include "membership/member_table.hpp"

#include <boost/test/unit_test.hpp>

#include "base/rng.hpp"
#include "membership/limits.hpp"
#include "wire/frame.hpp"

using namespace starling;
using membership::MemberTable;
using wire::MemberRecord;
using wire::MemberState;

namespace {

MemberRecord record(std::uint32_t number, std::uint64_t incarnation, MemberState state) {
  MemberRecord made{.name = "m", .addresses = {"h:1"}, .incarnation = incarnation, .state = state};
  for (std::size_t i = 0; i < 4; ++i) {
    made.id.bytes[i] = static_cast<std::uint8_t>(number >> (24 - 8 * i));
  }
  return made;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(member_table)

BOOST_AUTO_TEST_CASE(higher_incarnation_wins_then_worse_state) {
  using enum MemberState;
  MemberTable table(record(0, 1, alive));
  BOOST_TEST(table.apply(record(1, 5, alive)));
  BOOST_TEST(!table.apply(record(1, 5, alive)));
  BOOST_TEST(!table.apply(record(1, 4, left)));
  BOOST_TEST(table.apply(record(1, 5, dead)));
  BOOST_TEST(table.apply(record(1, 5, left)));
  BOOST_TEST(!table.apply(record(1, 5, dead)));
  BOOST_TEST(table.apply(record(1, 6, alive)));
}

BOOST_AUTO_TEST_CASE(hash_is_independent_of_the_order_and_of_what_was_before) {
  using enum MemberState;
  MemberTable a(record(0, 1, alive));
  MemberTable b(record(0, 1, alive));
  BOOST_TEST(a.apply(record(1, 1, alive)));
  BOOST_TEST(a.apply(record(2, 1, alive)));
  BOOST_TEST(a.hash() != b.hash());
  BOOST_TEST(b.apply(record(2, 1, alive)));
  BOOST_TEST(b.apply(record(1, 1, alive)));
  BOOST_TEST(a.hash() == b.hash());
  BOOST_TEST(a.apply(record(1, 2, dead)));
  BOOST_TEST(a.hash() != b.hash());
  BOOST_TEST(b.apply(record(1, 2, dead)));
  BOOST_TEST(a.hash() == b.hash());
}

BOOST_AUTO_TEST_CASE(alive_version_moves_with_the_alive_members_alone) {
  using enum MemberState;
  MemberTable table(record(0, 1, alive));
  std::uint64_t version = table.alive_version();
  const auto moved = [&] { return std::exchange(version, table.alive_version()) != version; };
  BOOST_TEST(table.apply(record(1, 1, alive)));
  BOOST_TEST(moved());
  table.mark_suspect(record(1, 1, alive).id);
  BOOST_TEST(!moved());
  BOOST_TEST(table.apply(record(1, 1, dead)));
  BOOST_TEST(moved());
  BOOST_TEST(table.apply(record(2, 1, dead)));
  BOOST_TEST(!moved());
}

BOOST_AUTO_TEST_CASE(who_is_alive_is_found_by_all_its_addresses) {
  using enum MemberState;
  MemberTable table(record(0, 1, alive));
  const auto at = [&](std::uint32_t number, std::uint64_t incarnation, MemberState state,
                      std::vector<std::string> addresses) {
    MemberRecord made = record(number, incarnation, state);
    made.addresses = std::move(addresses);
    BOOST_TEST(table.apply(made));
  };
  at(1, 1, alive, {"a:1", "b:1"});
  at(2, 1, alive, {"a:1", "b:1"});
  BOOST_TEST(table.anyone_alive_at({"a:1", "b:1"}));
  BOOST_TEST(!table.anyone_alive_at({"a:1"}));
  BOOST_TEST(!table.anyone_alive_at({"b:1", "a:1"}));
  at(1, 2, dead, {"a:1", "b:1"});
  BOOST_TEST(table.anyone_alive_at({"a:1", "b:1"}));
  at(2, 2, alive, {"c:1"});
  BOOST_TEST(!table.anyone_alive_at({"a:1", "b:1"}));
  BOOST_TEST(table.anyone_alive_at({"c:1"}));
}

BOOST_AUTO_TEST_CASE(buckets_hold_each_record_once_and_their_hashes_make_the_tables_hash) {
  MemberTable table(record(0, 1, MemberState::alive));
  base::Rng rng(5);
  for (int i = 0; i < 300; ++i) {
    BOOST_REQUIRE(table.apply(record(static_cast<std::uint32_t>(rng()), 1, MemberState::alive)));
  }
  for (std::uint8_t bits = 0; bits <= wire::kBucketBitsMax; ++bits) {
    std::uint64_t sum = 0;
    std::size_t records = 0;
    const auto hashes = table.bucket_hashes(bits);
    for (std::size_t i = 0; i < hashes.size(); ++i) {
      sum += hashes[i];
      for (const auto* held : table.bucket(bits, static_cast<std::uint16_t>(i))) {
        BOOST_TEST(membership::bucket_of(held->id.prefix(), bits) == i);
        ++records;
      }
    }
    BOOST_TEST(sum == table.hash());
    BOOST_TEST(records == 301U);
  }
  BOOST_TEST(membership::bucket_bits(16) == 0);
  BOOST_TEST(membership::bucket_bits(1000) == 6);
}

BOOST_AUTO_TEST_CASE(a_member_is_found_by_its_prefix) {
  MemberTable table(record(7, 1, MemberState::alive));
  BOOST_REQUIRE(table.apply(record(9, 1, MemberState::alive)));
  const base::PeerId id = record(9, 1, MemberState::alive).id;
  BOOST_REQUIRE((table.find(id.prefix()) != nullptr));
  BOOST_TEST((table.find(id.prefix())->id == id));
  BOOST_TEST((table.find(id.prefix() - 1) == nullptr));
  BOOST_TEST((table.find(id.prefix() + 1) == nullptr));
}

BOOST_AUTO_TEST_CASE(a_full_table_gives_up_the_dead_but_not_the_living) {
  using enum MemberState;
  MemberTable table(record(0, 1, alive));
  for (std::uint32_t i = 1; i < membership::kMembersMax; ++i) {
    BOOST_REQUIRE(table.apply(record(i, 1, i == 77 ? dead : alive)));
  }
  BOOST_TEST(table.apply(record(10'000, 1, alive)));
  BOOST_TEST((table.find(record(77, 1, dead).id) == nullptr));
  BOOST_TEST(!table.apply(record(10'001, 1, alive)));
  BOOST_TEST(table.members().size() == membership::kMembersMax);
}

BOOST_AUTO_TEST_CASE(the_longest_records_fit_into_frames) {
  std::vector<MemberRecord> records;
  for (std::uint32_t i = 0; i < 200; ++i) {
    MemberRecord longest = record(i, 1, MemberState::alive);
    longest.name.assign(wire::kNameMax, 'n');
    longest.addresses.assign(wire::kAddressesMax, std::string(wire::kAddressMax, 'a'));
    records.push_back(longest);
  }
  std::size_t total = 0;
  for (const wire::Gossip& gossip : membership::to_gossip(records)) {
    total += gossip.members.size();
    BOOST_TEST(wire::encode(gossip).size() <= wire::kFrameHeaderSize + wire::kMetadataMax);
  }
  BOOST_TEST(total == 200);
}

BOOST_AUTO_TEST_SUITE_END()
