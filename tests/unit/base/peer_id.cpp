#include "base/peer_id.hpp"

#include <boost/test/unit_test.hpp>

using starling::base::PeerId;

BOOST_AUTO_TEST_SUITE(peer_id)

BOOST_AUTO_TEST_CASE(hex_has_all_bytes_in_order) {
  PeerId id;
  for (std::size_t i = 0; i < id.bytes.size(); ++i) id.bytes[i] = static_cast<std::uint8_t>(7 * i);
  BOOST_TEST(id.hex().substr(0, 18) == "00070e151c232a3138");
  BOOST_TEST(id.hex().size() == 64U);
  BOOST_TEST(id.brief() == id.hex().substr(0, 8));
  BOOST_TEST(id.prefix() == 0x00070e151c232a31ULL);
}

BOOST_AUTO_TEST_SUITE_END()
