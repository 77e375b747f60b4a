#include "compute/cpu/gemm.hpp"

#include <bit>
#include <cmath>
#include <vector>

#include <boost/test/unit_test.hpp>

#include "compute/cpu/gemm_bf16.hpp"
#include "networks.hpp"

using namespace starling;
using namespace starling::compute::cpu;
using namespace starling::compute::testing;

namespace {

/// Products of values that bfloat16 holds are exact in float32: both kinds of gemm are held to the
/// same tolerance with them.
void cut_to_bfloat16(std::vector<float>& values) {
  for (float& value : values) {
    value = std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) & 0xffff0000U);
  }
}

/// By a kernel for bfloat16, or by gemm() if there is none.
void multiply(const Bf16Kernel* kernel, const Gemm& product, std::uint32_t threads) {
  if (kernel == nullptr) return gemm(product, threads);
  gemm_bf16(*kernel, product, threads);
}

/// Sides around those of tiles and blocks, every way to lie in memory.
void check_products(std::uint64_t seed, const Bf16Kernel* kernel) {
  base::Rng rng(seed);
  for (int round = 0; round < 120; ++round) {
    const std::size_t largest = round % 40 == 1 ? 1100 : round % 6 == 0 ? 420 : 50;
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
    auto left = random_floats((left_turned ? depth : rows) * left_stride, rng);
    auto right = random_floats((right_turned ? columns : depth) * right_stride, rng);
    if (kernel != nullptr) {
      cut_to_bfloat16(left);
      cut_to_bfloat16(right);
    }
    const auto bias = random_floats(columns, rng);
    const auto before = random_floats(rows * stride, rng);
    auto result = before;
    multiply(kernel,
             {.rows = rows,
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
    BOOST_TEST_CONTEXT("seed " << seed << ", round " << round << ": " << rows << " x " << columns
                               << " x " << depth << ", " << threads << " threads") {
      BOOST_TEST(worst < 1e-6 * static_cast<double>(depth) + 1e-6);
      BOOST_TEST(outside);
    }
  }
}

boost::test_tools::assertion_result needs_bfloat16(boost::unit_test::test_unit_id) {
  boost::test_tools::assertion_result result(has_bfloat16());
  result.message() << "this processor has neither AMX nor AVX512-BF16";
  return result;
}

/// check(kernel) for each kind of bfloat16 products that this processor can run.
template <class Check>
void for_each_kernel(const Check& check) {
  for (const Bf16Kernel* const kernel : bf16_kernels()) {
    BOOST_TEST_CONTEXT(kernel->name) { check(kernel); }
  }
}

void check_threads(const Bf16Kernel* kernel) {
  base::Rng rng(32);
  const auto left = random_floats(300 * 280, rng);
  const auto right = random_floats(280 * 310, rng);
  const auto product = [&](std::uint32_t threads) {
    std::vector<float> result(300 * 310);
    multiply(kernel,
             {.rows = 300,
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

}  // namespace

BOOST_AUTO_TEST_SUITE(gemm_of_float)

BOOST_AUTO_TEST_CASE(matches_a_plain_product) { check_products(31, nullptr); }

BOOST_AUTO_TEST_CASE(the_number_of_threads_does_not_change_a_bit) { check_threads(nullptr); }

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(gemm_of_bfloat16, *boost::unit_test::precondition(needs_bfloat16))

BOOST_AUTO_TEST_CASE(matches_a_plain_product) {
  for_each_kernel([](const Bf16Kernel* kernel) { check_products(33, kernel); });
}

BOOST_AUTO_TEST_CASE(the_number_of_threads_does_not_change_a_bit) {
  for_each_kernel([](const Bf16Kernel* kernel) { check_threads(kernel); });
}

// To the nearest, ties to even; sums stay float32.
BOOST_AUTO_TEST_CASE(rounds_both_factors) {
  for_each_kernel([](const Bf16Kernel* kernel) {
    constexpr float kStep = 0x1p-7F;  // between two values of bfloat16 from 1 to 2
    const auto product = [kernel](float left, float right, float before) {
      gemm_bf16(*kernel,
                {.rows = 1,
                 .columns = 1,
                 .depth = 1,
                 .left = {&left, 1},
                 .right = {&right, 1},
                 .result = &before,
                 .result_stride = 1,
                 .add = true},
                1);
      return before;
    };
    BOOST_TEST(product(1 + kStep / 2, 1, 0) == 1);
    BOOST_TEST(product(1, 1 + kStep * 3 / 2, 0) == 1 + 2 * kStep);
    BOOST_TEST(product(1 + kStep * 0.6F, 1 + kStep * 0.4F, 0) == 1 + kStep);
    BOOST_TEST(product(1, 1, kStep / 8) == 1 + kStep / 8);
  });
}

// gemm() rounds where it is told to, and with the first kernel.
BOOST_AUTO_TEST_CASE(is_what_gemm_does_with_bfloat16) {
  base::Rng rng(34);
  const auto left = random_floats(70 * 90, rng);
  const auto right = random_floats(90 * 50, rng);
  Gemm product{.rows = 70,
               .columns = 50,
               .depth = 90,
               .left = {left.data(), 90},
               .right = {right.data(), 50},
               .result = nullptr,
               .result_stride = 50,
               .bfloat16 = true};
  std::vector<float> one(70 * 50);
  std::vector<float> other(70 * 50);
  product.result = one.data();
  gemm(product);
  product.result = other.data();
  gemm_bf16(*bf16_kernels().front(), product, 1);
  BOOST_TEST((one == other));
}

BOOST_AUTO_TEST_SUITE_END()
