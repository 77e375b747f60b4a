#include "base/peer_id.hpp"

#include <boost/test/unit_test.hpp>

using starling::base::PeerId;

BOOST_AUTO_TEST_SUITE(peer_id)

BOOST_AUTO_TEST_CASE(hex_survives_a_round_trip) {
  PeerId id;
  for (std::size_t i = 0; i < id.bytes.size(); ++i) id.bytes[i] = static_cast<std::uint8_t>(7 * i);
  const auto parsed = PeerId::parse(id.hex());
  BOOST_REQUIRE(parsed.has_value());
  BOOST_TEST((*parsed == id));
  BOOST_TEST(id.brief() == id.hex().substr(0, 8));
  BOOST_TEST(id.prefix() == 0x00070e151c232a31ULL);
}

BOOST_AUTO_TEST_CASE(wrong_text_is_named_in_the_error) {
  BOOST_TEST(PeerId::parse("abc").error().text.find("'abc'") != std::string::npos);
  BOOST_TEST(PeerId::parse(std::string(63, 'a') + "g").error().text.find("digit 64") !=
             std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()
