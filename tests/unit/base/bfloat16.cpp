#include "base/bfloat16.hpp"

#include <array>
#include <bit>
#include <cmath>
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

BOOST_AUTO_TEST_CASE(zeros_have_no_sign) {
  for (const float zero : {0.0F, -0.0F, -1e-45F, -1e-41F}) {
    BOOST_TEST(std::bit_cast<std::uint32_t>(nearest(zero)) == 0U);
    std::array<BFloat16, 1> out;
    narrow(std::array{zero}, 5, 0, out);
    BOOST_TEST((out[0].bits == 0 || widen(out[0]) < 0));
  }
}

BOOST_AUTO_TEST_CASE(draws_keep_the_mean_and_what_can_be_said) {
  constexpr std::uint64_t kSeed = 22;
  Rng rng(kSeed);
  const std::vector<float> values = some_values(rng);
  constexpr std::uint32_t kDraws = 4000;
  std::vector<double> sum(kN, 0.0);
  std::vector<BFloat16> out(kN);
  std::vector<float> wide(kN);
  for (std::uint32_t seed = 0; seed < kDraws; ++seed) {
    narrow(values, seed * 0x9e3779b9U, 7, out);
    widen(out, wide);
    for (std::size_t i = 0; i < kN; ++i) {
      sum[i] += static_cast<double>(wide[i]);
      BOOST_REQUIRE(std::fabs(wide[i] - values[i]) <= std::fabs(values[i]) * 0x1p-7F);
    }
    std::vector<BFloat16> again(kN);
    narrow(wide, seed, 3, again);
    for (std::size_t i = 0; i < kN; ++i) BOOST_REQUIRE(again[i].bits == out[i].bits);
  }
  for (std::size_t i = 0; i < kN; ++i) {
    BOOST_TEST_CONTEXT("seed " << kSeed << ", value " << values[i]) {
      // Five standard deviations of kDraws that are off by the last bit at most.
      const double off = std::abs(sum[i] / kDraws - static_cast<double>(values[i]));
      BOOST_TEST(off <= 5 * 0x1p-8 * std::abs(static_cast<double>(values[i])) / std::sqrt(kDraws));
    }
  }
}

BOOST_AUTO_TEST_CASE(a_draw_belongs_to_its_element_wherever_a_part_begins) {
  Rng rng(23);
  const std::vector<float> values = some_values(rng);
  std::vector<BFloat16> whole(kN);
  std::vector<BFloat16> parts(kN);
  narrow(values, 99, 0, whole);
  for (std::size_t begin = 0; begin < kN;) {
    const std::size_t n = std::min<std::size_t>(1 + rng.below(70), kN - begin);
    narrow(std::span(values).subspan(begin, n), 99, begin, std::span(parts).subspan(begin, n));
    begin += n;
  }
  for (std::size_t i = 0; i < kN; ++i) BOOST_REQUIRE(whole[i].bits == parts[i].bits);
}

BOOST_AUTO_TEST_SUITE_END()
