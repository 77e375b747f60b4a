#include "data/augment.hpp"

#include <algorithm>
#include <map>
#include <set>

#include <boost/test/unit_test.hpp>

#include "data/array_set.hpp"
#include "data/batch_stream.hpp"

using namespace starling::data;

namespace {

constexpr std::uint64_t kAugmentSeed = 5;
const std::vector<std::uint32_t> kImageShape{2, 4, 3};

/// Images of values 1, 2, ..., each the same.
std::vector<float> images(std::size_t count) {
  std::vector<float> all;
  for (std::size_t n = 0; n < count; ++n) {
    for (int i = 1; i <= 24; ++i) all.push_back(static_cast<float>(i));
  }
  return all;
}

std::vector<float> changed(const Augmentation& augmentation, std::size_t count,
                           std::uint64_t first = 0, std::uint64_t seed = kAugmentSeed) {
  auto all = images(count);
  std::vector<float> scratch(24);
  augment(augmentation, kImageShape, seed, first, all, scratch);
  return all;
}

/// The image seen through a window that is moved, and turned if wanted.
std::vector<float> expected(int down, int right, bool flip) {
  std::vector<float> out;
  for (int c = 0; c < 2; ++c) {
    for (int y = 0; y < 4; ++y) {
      for (int x = 0; x < 3; ++x) {
        const int from_y = y + down;
        const int from_x = (flip ? 2 - x : x) + right;
        const bool inside = from_y >= 0 && from_y < 4 && from_x >= 0 && from_x < 3;
        out.push_back(inside ? static_cast<float>(1 + 12 * c + 3 * from_y + from_x) : 0.0F);
      }
    }
  }
  return out;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(augmentation)

BOOST_AUTO_TEST_CASE(every_crop_and_flip_comes_equally_often_and_nothing_else) {
  std::map<std::vector<float>, int> known;
  for (int down = -2; down <= 2; ++down) {
    for (int right = -2; right <= 2; ++right) {
      for (const bool flip : {false, true}) known[expected(down, right, flip)] = 0;
    }
  }
  BOOST_TEST(known.size() == 50U);
  constexpr int kImages = 20000;
  const auto all = changed({.crop = 2, .flip = true}, kImages);
  for (std::size_t n = 0; n < kImages; ++n) {
    const auto at = all.begin() + static_cast<std::ptrdiff_t>(24 * n);
    const auto found = known.find(std::vector<float>(at, at + 24));
    BOOST_REQUIRE(found != known.end());
    ++found->second;
  }
  // 400 each, to 6 sigma.
  for (const auto& [image, count] : known) BOOST_TEST((count > 280 && count < 520));
}

BOOST_AUTO_TEST_CASE(each_works_alone) {
  const auto flipped = changed({.crop = 0, .flip = true}, 50);
  const auto cropped = changed({.crop = 1, .flip = false}, 50);
  for (std::size_t n = 0; n < 50; ++n) {
    const auto at = static_cast<std::ptrdiff_t>(24 * n);
    const std::vector<float> flip(flipped.begin() + at, flipped.begin() + at + 24);
    BOOST_TEST((flip == expected(0, 0, true) || flip == expected(0, 0, false)));
    const std::vector<float> crop(cropped.begin() + at, cropped.begin() + at + 24);
    bool found = false;
    for (int down = -1; down <= 1; ++down) {
      for (int right = -1; right <= 1; ++right) found |= crop == expected(down, right, false);
    }
    BOOST_TEST(found);
  }
}

BOOST_AUTO_TEST_CASE(change_follows_seed_and_place_of_the_sample) {
  const Augmentation both{.crop = 2, .flip = true};
  const auto all = changed(both, 40);
  BOOST_TEST((all == changed(both, 40)));
  BOOST_TEST((all != changed(both, 40, 0, kAugmentSeed + 1)));
  const auto rest = changed(both, 30, 10);
  BOOST_TEST(std::equal(rest.begin(), rest.end(), all.begin() + 240));
}

BOOST_AUTO_TEST_CASE(training_batches_are_changed_and_evaluation_is_not) {
  std::vector<std::byte> pixels;
  for (int i = 1; i <= 24; ++i) pixels.push_back(static_cast<std::byte>(i));
  const auto set = ArraySet::make({.blocks = {{pixels.data(), 0, 16}},  // the same image each time
                                   .shape = kImageShape,
                                   .normalisation = {{.mean = 0, .std = 1.0 / 255.0}}},
                                  {.labels = std::vector<std::int32_t>(16), .classes = 2}, "test")
                       .value();
  const Shards shards(16, set->labels(), {.shards = 4}, 1);
  BatchStream stream(*set, shards, {.crop = 2, .flip = true}, 16, kAugmentSeed);
  BatchBuffer batch;
  std::set<std::vector<float>> seen;
  for (int n = 0; n < 20; ++n) {
    stream.next(batch);
    for (auto at = batch.samples.begin(); at != batch.samples.end(); at += 24) {
      seen.insert(std::vector<float>(at, at + 24));
    }
  }
  BOOST_TEST(seen.size() > 40U);
  set->fill_range(0, 16, batch);
  for (auto at = batch.samples.begin(); at != batch.samples.end(); at += 24) {
    for (int i = 0; i < 24; ++i) BOOST_TEST(std::abs(at[i] - static_cast<float>(i + 1)) < 1e-4F);
  }
}

BOOST_AUTO_TEST_SUITE_END()
