#include "base/bfloat16.hpp"

#include <array>
#include <bit>
#include <cmath>
#include <span>
#include <vector>

#include <boost/test/unit_test.hpp>

#include "base/rng.hpp"

using namespace starling::base;

namespace {

constexpr std::size_t kN = 1000;

std::vector<float> some_values(Rng& rng) {
  std::vector<float> values(kN);
  for (float& value : values) {
    value = static_cast<float>(std::pow(10.0, 60 * rng.uniform() - 30) * (rng.uniform() - 0.5));
  }
  return values;
}

float nearest(float value) {
  std::array<BFloat16, 1> out;
  narrow(std::array{value}, out);
  return widen(out[0]);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(bfloat16)

BOOST_AUTO_TEST_CASE(the_nearest_is_within_half_of_the_last_bit) {
  constexpr std::uint64_t kSeed = 21;
  Rng rng(kSeed);
  for (const float value : some_values(rng)) {
    BOOST_TEST_CONTEXT("seed " << kSeed << ", value " << value) {
      BOOST_TEST(std::fabs(nearest(value) - value) <= std::fabs(value) * 0x1p-8F);
      BOOST_TEST(nearest(nearest(value)) == nearest(value));
    }
  }
  BOOST_TEST(nearest(1.0F + 0x1p-8F) == 1.0F + 0x1p-7F);  // as near to 1
  BOOST_TEST(nearest(1.0F + 0x1p-8F - 0x1p-20F) == 1.0F);
}

BOOST_AUTO_TEST_CASE(of_two_as_near_the_even_one_is_taken_where_that_is_asked_for) {
  const auto even = [](float value) { return widen(narrow_to_even(value)); };
  BOOST_TEST(even(1.0F + 0x1p-8F) == 1.0F);
  BOOST_TEST(even(1.0F + 0x1p-8F + 0x1p-20F) == 1.0F + 0x1p-7F);
  BOOST_TEST(even(1.0F + 0x1.8p-7F) == 1.0F + 0x1p-6F);
  BOOST_TEST(even(-1.0F - 0x1p-8F) == -1.0F);
}

BOOST_AUTO_TEST_CASE(vectors_come_out_as_their_elements_do) {
  constexpr std::uint64_t kSeed = 23;
  Rng rng(kSeed);
  std::vector<float> values = some_values(rng);
  for (std::size_t i = 0; i < kN; i += 7) values[i] = i % 2 == 0 ? -0.0F : -1e-45F;
  for (std::size_t n = 1; n < 100; ++n) {
    const auto some = std::span(values).subspan(n, n);
    std::vector<BFloat16> half(n);
    std::vector<float> wide(n);
    narrow(some, half);
    widen(half, wide);
    BOOST_TEST_CONTEXT("seed " << kSeed << ", n " << n) {
      for (std::size_t i = 0; i < n; ++i) {
        BOOST_REQUIRE(half[i].bits == narrow(some[i], 0x8000).bits);
        BOOST_REQUIRE(std::bit_cast<std::uint32_t>(wide[i]) ==
                      static_cast<std::uint32_t>(half[i].bits) << 16);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(zeros_have_no_sign) {
  for (const float zero : {0.0F, -0.0F, -1e-45F, -1e-41F}) {
    BOOST_TEST(std::bit_cast<std::uint32_t>(nearest(zero)) == 0U);
    const BFloat16 drawn = narrow(zero, draw(5, 0));
    BOOST_TEST((drawn.bits == 0 || widen(drawn) < 0));
  }
}

BOOST_AUTO_TEST_CASE(draws_keep_the_mean_and_what_can_be_said) {
  constexpr std::uint64_t kSeed = 22;
  Rng rng(kSeed);
  const std::vector<float> values = some_values(rng);
  constexpr std::uint32_t kDraws = 4000;
  std::vector<double> sum(kN, 0.0);
  for (std::uint32_t seed = 0; seed < kDraws; ++seed) {
    for (std::uint32_t i = 0; i < kN; ++i) {
      const BFloat16 drawn = narrow(values[i], draw(seed * 0x9e3779b9U, 7 + i));
      const float wide = widen(drawn);
      sum[i] += static_cast<double>(wide);
      BOOST_REQUIRE(std::fabs(wide - values[i]) <= std::fabs(values[i]) * 0x1p-7F);
      BOOST_REQUIRE(narrow(wide, draw(seed, 3 + i)).bits == drawn.bits);
    }
  }
  for (std::size_t i = 0; i < kN; ++i) {
    BOOST_TEST_CONTEXT("seed " << kSeed << ", value " << values[i]) {
      // Five standard deviations of kDraws that are off by the last bit at most.
      const double off = std::abs(sum[i] / kDraws - static_cast<double>(values[i]));
      BOOST_TEST(off <= 5 * 0x1p-8 * std::abs(static_cast<double>(values[i])) / std::sqrt(kDraws));
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
