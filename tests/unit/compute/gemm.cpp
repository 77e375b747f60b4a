#include "compute/cpu/gemm.hpp"

#include <cmath>
#include <vector>

#include <boost/test/unit_test.hpp>

#include "networks.hpp"

using namespace starling;
using namespace starling::compute::cpu;
using namespace starling::compute::testing;

BOOST_AUTO_TEST_SUITE(gemm_of_float)

// Sides around those of tiles and blocks, every way to lie in memory.
BOOST_AUTO_TEST_CASE(matches_a_plain_product) {
  constexpr std::uint64_t kSeed = 31;
  base::Rng rng(kSeed);
  for (int round = 0; round < 120; ++round) {
    const std::size_t largest = round % 6 == 0 ? 420 : 50;
    const std::size_t rows = 1 + rng.below(largest);
    const std::size_t columns = 1 + rng.below(largest);
    const std::size_t depth = 1 + rng.below(largest);
    const bool left_turned = rng.below(2) == 0;
    const bool right_turned = rng.below(2) == 0;
    const bool adds = rng.below(2) == 0;
    const bool has_bias = !adds && rng.below(2) == 0;
    const auto threads = static_cast<std::uint32_t>(1 + rng.below(3));
    const std::size_t left_stride = (left_turned ? rows : depth) + rng.below(3);
    const std::size_t right_stride = (right_turned ? depth : columns) + rng.below(3);
    const std::size_t stride = columns + rng.below(3);
    const auto left = random_floats((left_turned ? depth : rows) * left_stride, rng);
    const auto right = random_floats((right_turned ? columns : depth) * right_stride, rng);
    const auto bias = random_floats(columns, rng);
    const auto before = random_floats(rows * stride, rng);
    auto result = before;
    gemm({.rows = rows,
          .columns = columns,
          .depth = depth,
          .left = {left.data(), left_stride, left_turned},
          .right = {right.data(), right_stride, right_turned},
          .result = result.data(),
          .result_stride = stride,
          .add = adds,
          .bias = has_bias ? bias.data() : nullptr},
         threads);
    double worst = 0;
    bool outside = true;
    for (std::size_t i = 0; i < rows; ++i) {
      for (std::size_t j = 0; j < stride; ++j) {
        const std::size_t at = i * stride + j;
        if (j >= columns) {
          outside = outside && result[at] == before[at];
          continue;
        }
        double sum = adds       ? static_cast<double>(before[at])
                     : has_bias ? static_cast<double>(bias[j])
                                : 0.0;
        for (std::size_t k = 0; k < depth; ++k) {
          const float a = left_turned ? left[k * left_stride + i] : left[i * left_stride + k];
          const float b = right_turned ? right[j * right_stride + k] : right[k * right_stride + j];
          sum += static_cast<double>(a) * static_cast<double>(b);
        }
        worst = std::max(worst, std::abs(sum - static_cast<double>(result[at])));
      }
    }
    BOOST_TEST_CONTEXT("seed " << kSeed << ", round " << round << ": " << rows << " x " << columns
                               << " x " << depth << ", " << threads << " threads") {
      BOOST_TEST(worst < 1e-6 * static_cast<double>(depth) + 1e-6);
      BOOST_TEST(outside);
    }
  }
}

BOOST_AUTO_TEST_CASE(the_number_of_threads_does_not_change_a_bit) {
  base::Rng rng(32);
  const auto left = random_floats(300 * 280, rng);
  const auto right = random_floats(280 * 310, rng);
  const auto product = [&](std::uint32_t threads) {
    std::vector<float> result(300 * 310);
    gemm({.rows = 300,
          .columns = 310,
          .depth = 280,
          .left = {left.data(), 280},
          .right = {right.data(), 310},
          .result = result.data(),
          .result_stride = 310},
         threads);
    return result;
  };
  const auto one = product(1);
  BOOST_TEST((product(2) == one));
  BOOST_TEST((product(3) == one));
}

BOOST_AUTO_TEST_SUITE_END()
