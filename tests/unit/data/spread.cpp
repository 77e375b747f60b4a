#include "data/spread.hpp"

#include <algorithm>
#include <iterator>
#include <set>
#include <vector>

#include <boost/test/unit_test.hpp>

#include "base/bytes.hpp"
#include "data/array_set.hpp"

using namespace starling::data;

BOOST_AUTO_TEST_SUITE(spread_samples)

BOOST_AUTO_TEST_CASE(each_number_is_taken_or_left_once_and_in_order) {
  for (const std::uint32_t count : {2U, 3U, 10U, 97U, 1000U}) {
    for (std::uint32_t wanted = 1; wanted <= count; wanted += 1 + wanted / 3) {
      std::vector<std::uint32_t> taken;
      std::vector<std::uint32_t> left;
      for (std::uint32_t i = 0; i < wanted; ++i) taken.push_back(spread(i, wanted, count));
      for (std::uint32_t i = 0; i < count - wanted; ++i) {
        left.push_back(left_by_spread(i, wanted, count));
      }
      BOOST_TEST(std::ranges::is_sorted(taken));
      BOOST_TEST(std::ranges::is_sorted(left));
      std::vector<std::uint32_t> all;
      std::ranges::set_union(taken, left, std::back_inserter(all));
      BOOST_REQUIRE(all.size() == count);
      BOOST_REQUIRE((all.front() == 0 && all.back() == count - 1));
    }
  }
}

BOOST_AUTO_TEST_CASE(all_that_are_wanted_are_those_that_there_are) {
  for (std::uint32_t i = 0; i < 100; ++i) BOOST_TEST(spread(i, 100, 100) == i);
}

/// The labels that an evaluation on 100 of 1,000 samples sees.
std::set<std::int32_t> labels_seen(std::vector<std::int32_t> labels) {
  const starling::base::Bytes pixels(labels.size());
  const auto set =
      ArraySet::make(
          {.blocks = {{pixels.data(), 1, static_cast<std::uint32_t>(pixels.size())}}, .shape = {1}},
          {.labels = std::move(labels), .classes = 10}, "test")
          .value();
  std::set<std::int32_t> seen;
  BatchBuffer batch;
  for (std::uint32_t done = 0; done < 100; done += 20) {
    set->fill_spread(done, 20, 100, batch);
    seen.insert(batch.labels.begin(), batch.labels.end());
  }
  return seen;
}

BOOST_AUTO_TEST_CASE(sorted_labels_and_those_that_take_turns_are_all_met) {
  std::vector<std::int32_t> labels(1000);
  for (std::size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<std::int32_t>(i % 10);
  BOOST_TEST(labels_seen(labels).size() == 10U);
  std::ranges::sort(labels);
  BOOST_TEST(labels_seen(labels).size() == 10U);
}

BOOST_AUTO_TEST_SUITE_END()
