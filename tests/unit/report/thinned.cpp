#include "report/thinned.hpp"

#include <boost/test/unit_test.hpp>

using starling::report::Thinned;

BOOST_AUTO_TEST_SUITE(thinned)

BOOST_AUTO_TEST_CASE(few_values_all_stay) {
  Thinned<int> values(4);
  for (int i = 0; i < 4; ++i) values.push(i);
  BOOST_TEST((values.values() == std::vector{0, 1, 2, 3}));
}

BOOST_AUTO_TEST_CASE(many_values_stay_evenly_apart_and_in_bounds) {
  for (const std::size_t max : {2U, 3U, 4U, 256U}) {
    Thinned<int> values(max);
    for (int i = 0; i < 5000; ++i) {
      values.push(i);
      auto kept = values.values();
      BOOST_REQUIRE(kept.size() <= max + 1);
      BOOST_REQUIRE(kept.front() == 0);
      BOOST_REQUIRE(kept.back() == i);
      // The newest one may be nearer to the one before it.
      if (kept.size() > 2) kept.pop_back();
      for (std::size_t k = 2; k < kept.size(); ++k) {
        BOOST_REQUIRE(kept[k] - kept[k - 1] == kept[1] - kept[0]);
      }
      // At least half of the room is used, or all there are.
      BOOST_REQUIRE(
          (kept.size() * 2 + 2 > max || values.values().size() == static_cast<std::size_t>(i) + 1));
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
