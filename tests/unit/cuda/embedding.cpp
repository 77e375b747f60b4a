// The sums of an embedding's gradient: kernels on the processor, over tokens that occur more often
// than a chunk has places.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include <boost/test/unit_test.hpp>

#include "base/rng.hpp"
#include "cuda/kernels/elementwise.hpp"

using namespace starling;
using namespace starling::compute::cuda;

namespace {

constexpr std::size_t kWidth = 3;
constexpr std::size_t kChunk = EmbedSums::kChunk;

/// The sums of a token's elements; calls of a kernel come in any order.
std::vector<float> gradient_of(const std::vector<std::int32_t>& sorted,
                               const std::vector<std::int32_t>& places,
                               const std::vector<float>& dy, std::size_t vocabulary, bool add) {
  const std::size_t positions = sorted.size();
  const std::size_t chunks = (positions + kChunk - 1) / kChunk;
  const StepState step{.count = 1};
  std::vector<float> parts(2 * chunks * kWidth, 1e9F);  // nothing is read that was not written
  std::vector<float> dweight(vocabulary * kWidth, add ? 1.0F : 0.0F);
  const EmbedSums sums{kWidth, positions, &step, sorted.data(), add, parts.data(), dweight.data()};
  const EmbedBackward within{sums, places.data(), dy.data()};
  const EmbedJoin join{sums};
  for (std::size_t i = positions * kWidth; i-- > 0;) within(i);
  for (std::size_t i = chunks * kWidth; i-- > 0;) join(i);
  return dweight;
}

/// Tokens 0, 1, .. as often as `counts` says.
void check(const std::vector<std::size_t>& counts) {
  base::Rng rng(91);
  std::vector<std::int32_t> sorted;
  for (std::size_t token = 0; token < counts.size(); ++token) {
    sorted.insert(sorted.end(), counts[token], static_cast<std::int32_t>(token));
  }
  std::vector<std::int32_t> places(sorted.size());
  std::iota(places.begin(), places.end(), 0);
  for (std::size_t i = places.size(); i-- > 1;) std::swap(places[i], places[rng.below(i + 1)]);
  std::vector<float> dy(sorted.size() * kWidth);
  for (float& value : dy) value = static_cast<float>(rng.below(1000));  // sums are exact
  std::vector<float> expected(counts.size() * kWidth);
  for (std::size_t k = 0; k < sorted.size(); ++k) {
    for (std::size_t i = 0; i < kWidth; ++i) {
      expected[static_cast<std::size_t>(sorted[k]) * kWidth + i] +=
          dy[static_cast<std::size_t>(places[k]) * kWidth + i];
    }
  }
  BOOST_TEST((gradient_of(sorted, places, dy, counts.size(), false) == expected));
  for (std::size_t token = 0; token < counts.size(); ++token) {
    for (std::size_t i = 0; i < kWidth; ++i) expected[token * kWidth + i] += 1.0F;
  }
  BOOST_TEST((gradient_of(sorted, places, dy, counts.size(), true) == expected));
}

}  // namespace

BOOST_AUTO_TEST_SUITE(cuda_embedding)

BOOST_AUTO_TEST_CASE(tokens_that_fill_end_and_cross_chunks_are_added_up_once) {
  for (const std::size_t first : {0U, 1U, 63U, 64U, 65U, 127U, 128U, 129U}) {
    for (const std::size_t second : {1U, 63U, 64U, 65U, 128U, 200U, 1000U}) {
      for (const std::size_t third : {0U, 1U, 64U, 70U}) {
        BOOST_TEST_CONTEXT(first << ", " << second << ", " << third) {
          check({first, second, third});
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(no_sum_is_longer_than_a_chunk_or_than_there_are_chunks) {
  // Equal gradients of 2^-24 beside one of 1: one by one, each would be lost.
  constexpr std::size_t kCount = 64 * kChunk;
  std::vector<std::int32_t> places(kCount);
  std::iota(places.begin(), places.end(), 0);
  std::vector<float> dy(kCount * kWidth, 0x1p-24F);
  std::fill_n(dy.begin(), kWidth, 1.0F);
  const auto sums = gradient_of(std::vector<std::int32_t>(kCount), places, dy, 1, false);
  const float expected = 1.0F + static_cast<float>(kCount - kChunk) * 0x1p-24F;
  for (const float sum : sums) BOOST_TEST(sum == expected);
}

BOOST_AUTO_TEST_CASE(what_lies_behind_a_short_batch_is_not_looked_at) {
  constexpr std::size_t kPositions = 100;
  const StepState step{.count = 1};
  std::vector<std::int32_t> sorted(2 * kPositions, 0);
  std::vector<std::int32_t> places(2 * kPositions);
  std::iota(places.begin(), places.end(), 0);
  const std::vector<float> dy(2 * kPositions * kWidth, 1.0F);
  std::vector<float> parts(2 * 4 * kWidth);
  std::vector<float> dweight(kWidth);
  const EmbedSums sums{kWidth, kPositions,   &step,         sorted.data(),
                       false,  parts.data(), dweight.data()};
  for (std::size_t i = 0; i < dy.size(); ++i) EmbedBackward{sums, places.data(), dy.data()}(i);
  for (std::size_t i = 0; i < 4 * kWidth; ++i) EmbedJoin{sums}(i);
  for (const float sum : dweight) BOOST_TEST(sum == 100.0F);
}

BOOST_AUTO_TEST_SUITE_END()
