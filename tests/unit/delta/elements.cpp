#include "delta/elements.hpp"

#include <boost/test/unit_test.hpp>

using namespace starling;

BOOST_AUTO_TEST_SUITE(elements)

BOOST_AUTO_TEST_CASE(room_stays_for_deltas_of_the_usual_size_and_larger_ones_give_it_back) {
  delta::HostDelta delta;
  const auto fill = [&](std::size_t count) {
    delta.elements().indices.assign(count, 0);
    delta.elements().values.assign(count, 1.0F);
  };
  const auto room = [&] {
    return delta.elements().indices.capacity() + delta.elements().values.capacity();
  };
  fill(140);
  delta.free_beyond(100);
  BOOST_TEST(delta.size() == 140U);
  fill(10'000);
  delta.free_beyond(100);
  BOOST_TEST(delta.size() == 0U);
  BOOST_TEST(room() == 0U);
  fill(1);
  delta.free_beyond(0);
  BOOST_TEST(room() == 0U);
}

BOOST_AUTO_TEST_SUITE_END()
