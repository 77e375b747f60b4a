#include "hostile/flipped_labels.hpp"

#include <cstddef>
#include <utility>

#include <boost/test/unit_test.hpp>

#include "base/bytes.hpp"
#include "data/array_set.hpp"

using namespace starling;

BOOST_AUTO_TEST_SUITE(flipped_labels)

BOOST_AUTO_TEST_CASE(labels_are_turned_round_and_samples_stay) {
  const base::Bytes pixels{std::byte{0}, std::byte{100}, std::byte{200}, std::byte{255}};
  data::Answers answers{.classes = 10};
  answers.labels = {0, 3};
  const auto set = data::ArraySet::make(
      {.blocks = {{pixels.data(), 2, 2}}, .shape = {2}, .normalisation = {{.mean = 0, .std = 1}}},
      std::move(answers), "test");
  BOOST_REQUIRE(set.has_value());
  const hostile::FlippedLabels flipped(**set);
  BOOST_TEST(flipped.size() == 2);
  BOOST_TEST(flipped.labels()[1] == 6);
  data::BatchBuffer theirs;
  data::BatchBuffer ours;
  (*set)->fill_range(0, 2, theirs);
  flipped.fill_range(0, 2, ours);
  BOOST_TEST(ours.samples == theirs.samples, boost::test_tools::per_element());
  BOOST_TEST(ours.labels[0] == 9);
  BOOST_TEST(ours.labels[1] == 6);
}

BOOST_AUTO_TEST_SUITE_END()
