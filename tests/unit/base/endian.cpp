#include "base/endian.hpp"

#include <array>
#include <cstdint>

#include <boost/test/unit_test.hpp>

using namespace starling::base;

namespace {

Bytes numbers(std::initializer_list<int> values) {
  Bytes bytes;
  for (const int value : values) bytes.push_back(static_cast<std::byte>(value));
  return bytes;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(endian)

BOOST_AUTO_TEST_CASE(numbers_are_read_at_any_place) {
  const Bytes bytes = numbers({0xff, 0x01, 0x02, 0x83, 0x04, 0x05, 0x06, 0x07, 0x88});
  BOOST_TEST(load_little<std::uint8_t>(bytes) == 0xff);
  BOOST_TEST(load_little<std::uint16_t>(bytes, 1) == 0x0201);
  BOOST_TEST(load_little<std::uint32_t>(bytes, 1) == 0x04830201U);
  BOOST_TEST(load_little<std::uint64_t>(bytes, 1) == 0x8807060504830201U);
  BOOST_TEST(load_big<std::uint8_t>(bytes) == 0xff);
  BOOST_TEST(load_big<std::uint16_t>(bytes, 7) == 0x0788);
  BOOST_TEST(load_big<std::uint32_t>(bytes, 3) == 0x83040506U);
  BOOST_TEST(load_big<std::uint64_t>(bytes, 1) == 0x0102830405060788U);
}

BOOST_AUTO_TEST_CASE(numbers_are_written) {
  Bytes bytes(3);
  store_little(bytes, 1, std::uint16_t{0x0102});
  append_little(bytes, std::uint32_t{0x03040506});
  append_little(bytes, std::array<std::uint8_t, 2>{7, 8});
  append_big(bytes, std::uint16_t{0x090a});
  append_big(bytes, std::uint8_t{0xff});
  BOOST_TEST((bytes == numbers({0, 2, 1, 6, 5, 4, 3, 7, 8, 9, 10, 0xff})));
}

BOOST_AUTO_TEST_SUITE_END()
