#include "base/large_vector.hpp"

#include <algorithm>
#include <cstdint>
#include <set>
#include <vector>

#include <boost/test/unit_test.hpp>

using namespace starling::base;

BOOST_AUTO_TEST_SUITE(large_vector)

BOOST_AUTO_TEST_CASE(not_all_begin_at_the_same_place_of_a_huge_page) {
  constexpr std::size_t kHugePage = std::size_t{1} << 21;
  const std::vector<LargeFloats> vectors(8, LargeFloats(5'000'000));
  std::set<std::uintptr_t> places;
  for (const LargeFloats& vector : vectors) {
    places.insert(reinterpret_cast<std::uintptr_t>(vector.data()) % kHugePage);
  }
  BOOST_TEST(places.size() > vectors.size() / 2);
}

BOOST_AUTO_TEST_CASE(vectors_of_all_sizes_are_whole_and_freed) {
  constexpr std::size_t kStaggered = std::size_t{1} << 24;
  for (const std::size_t bytes : {std::size_t{100}, kLargeBytes - 4, kLargeBytes, kLargeBytes + 4,
                                  kStaggered - 4, kStaggered}) {
    LargeFloats vector(bytes / sizeof(float), 7.0F);
    const LargeFloats copy = vector;
    vector.resize(2 * vector.size(), 9.0F);
    BOOST_TEST(vector[copy.size() - 1] == 7.0F);
    BOOST_TEST(vector.back() == 9.0F);
    BOOST_TEST(std::ranges::count(copy, 7.0F) == static_cast<std::ptrdiff_t>(copy.size()));
  }
}

BOOST_AUTO_TEST_SUITE_END()
