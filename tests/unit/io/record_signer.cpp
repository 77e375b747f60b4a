#include "io/record_signer.hpp"

#include <boost/test/unit_test.hpp>

#include "membership/record.hpp"

using namespace starling;

namespace {

wire::MemberRecord record_of(const io::Identity& identity) {
  return {.id = identity.id(), .name = "n", .addresses = {"h:1"}, .incarnation = 7};
}

}  // namespace

BOOST_AUTO_TEST_SUITE(record_signer)

BOOST_AUTO_TEST_CASE(a_record_is_genuine_with_any_signer_and_not_after_any_change) {
  const auto owner = io::Identity::generate();
  const auto other = io::Identity::generate();
  BOOST_REQUIRE((owner && other));
  io::RecordSigner signer(*owner);
  io::RecordSigner judge(*other);
  wire::MemberRecord record = record_of(*owner);
  membership::sign(record, signer);
  BOOST_TEST(membership::is_genuine(record, judge));
  wire::MemberRecord doubted = record;
  doubted.state = wire::MemberState::dead;  // others' word: not the owner's to sign
  BOOST_TEST(membership::is_genuine(doubted, judge));

  const auto is_refused = [&](auto change) {
    wire::MemberRecord changed = record;
    change(changed);
    return !membership::is_genuine(changed, judge);
  };
  BOOST_TEST(is_refused([](auto& r) { ++r.incarnation; }));
  BOOST_TEST(is_refused([](auto& r) { r.addresses = {"evil:1"}; }));
  BOOST_TEST(is_refused([](auto& r) { r.state = wire::MemberState::left; }));
  BOOST_TEST(is_refused([](auto& r) { r.speed = 9; }));
  BOOST_TEST(is_refused([](auto& r) { r.name += "x"; }));
  BOOST_TEST(is_refused([](auto& r) { r.signature[5] ^= 1; }));
  BOOST_TEST(is_refused([](auto& r) { r.id.bytes[3] ^= 1; }));
  // Signed well, by a key that is not the one the id is made of.
  BOOST_TEST(is_refused([&](auto& r) { membership::sign(r, judge); }));
}

BOOST_AUTO_TEST_SUITE_END()
