#include "membership/record.hpp"

#include <boost/test/unit_test.hpp>

#include "wire/fields.hpp"

namespace base = starling::base;
namespace wire = starling::wire;
namespace membership = starling::membership;

namespace {

void change(base::PeerId& id) { id.bytes[0] ^= 1; }
template <std::size_t N>
void change(std::array<std::uint8_t, N>& bytes) {
  bytes[0] ^= 1;
}
void change(std::string& text) { text += 'x'; }
void change(std::vector<std::string>& texts) { texts.emplace_back("x:1"); }
template <class T>
void change(T& value) {
  value = static_cast<T>(static_cast<int>(value) ^ 1);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(record)

// Suspect and dead are what others say of a member. That it left, it says itself.
BOOST_AUTO_TEST_CASE(a_signature_covers_each_field_but_itself) {
  const wire::MemberRecord record{.name = "alpha", .addresses = {"10.0.0.1:4000"}};
  wire::MemberRecord other = record;
  wire::fields(other, [&](const std::string& name, auto& value, const auto&) {
    const auto before = value;
    change(value);
    if (name == "state") other.state = wire::MemberState::left;
    const bool covered = membership::signed_bytes(other) != membership::signed_bytes(record);
    BOOST_TEST(covered == (name != "signature"), name);
    value = before;
  });
}

BOOST_AUTO_TEST_SUITE_END()
