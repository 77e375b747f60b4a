#include "model/sampling.hpp"

#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include <boost/test/unit_test.hpp>

using namespace starling::model;

namespace {

constexpr std::uint64_t kSeed = 20240607;
constexpr int kDraws = 20'000;
/// At most four standard deviations of a share among this many draws.
constexpr double kShareError = 4 * 0.5 / 141.4;

std::vector<double> shares(const std::vector<float>& logits, const Sampling& config) {
  TokenSampler sampler(config, kSeed);
  std::vector<double> counts(logits.size());
  for (int i = 0; i < kDraws; ++i) {
    counts.at(static_cast<std::size_t>(sampler.next(logits))) += 1.0 / kDraws;
  }
  return counts;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(sampling)

BOOST_AUTO_TEST_CASE(tokens_are_drawn_as_the_softmax_says) {
  const std::vector<float> logits{std::log(1.0F), std::log(5.0F), std::log(4.0F)};
  const auto drawn = shares(logits, {.temperature = 1});
  for (std::size_t i = 0; i < 3; ++i) {
    BOOST_TEST(std::abs(drawn[i] - std::array{0.1, 0.5, 0.4}[i]) < kShareError);
  }
}

BOOST_AUTO_TEST_CASE(a_temperature_flattens_or_sharpens) {
  const std::vector<float> logits{0, std::log(2.0F)};
  BOOST_TEST(std::abs(shares(logits, {.temperature = 0.5})[1] - 0.8) < kShareError);
  const double warm = std::sqrt(2.0) / (1 + std::sqrt(2.0));
  BOOST_TEST(std::abs(shares(logits, {.temperature = 2})[1] - warm) < kShareError);
}

BOOST_AUTO_TEST_CASE(only_the_top_k_are_drawn) {
  const std::vector<float> logits{0, 3, 1, 3, 2};
  const auto drawn = shares(logits, {.temperature = 1, .top_k = 2});
  BOOST_TEST(drawn[0] + drawn[2] + drawn[4] == 0);
  BOOST_TEST(std::abs(drawn[1] - 0.5) < kShareError);
  BOOST_TEST(shares(logits, {.temperature = 1, .top_k = 1})[1] == 1.0,
             boost::test_tools::tolerance(1e-9));
}

BOOST_AUTO_TEST_CASE(without_temperature_the_largest_is_taken) {
  TokenSampler sampler({.temperature = 0}, kSeed);
  BOOST_TEST(sampler.next(std::vector<float>{1, 7, 7, -3}) == 1);
}

BOOST_AUTO_TEST_CASE(the_same_seed_draws_the_same_tokens) {
  const std::vector<float> logits(100);
  TokenSampler one({}, kSeed), two({}, kSeed), other({}, kSeed + 1);
  int differ = 0;
  for (int i = 0; i < 100; ++i) {
    const std::int32_t token = one.next(logits);
    BOOST_REQUIRE(token == two.next(logits));
    if (token != other.next(logits)) ++differ;
  }
  BOOST_TEST(differ > 50);
}

BOOST_AUTO_TEST_CASE(what_is_not_finite_is_not_drawn) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();
  for (const double temperature : {0.0, 1.0}) {
    TokenSampler sampler({.temperature = temperature}, kSeed);
    for (int i = 0; i < 100; ++i) {
      BOOST_REQUIRE(sampler.next(std::vector<float>{nan, -infinity, -5, infinity}) == 2);
      const std::int32_t none = sampler.next(std::vector<float>{nan, nan});
      BOOST_REQUIRE((none == 0 || none == 1));
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
