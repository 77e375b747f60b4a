#include "delta/codec.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include <boost/test/unit_test.hpp>

#include "vectors.hpp"

using namespace starling;
using base::Bytes;
using base::Rng;
using delta::Elements;
using delta::Options;
using delta::test::normals;

namespace {

struct Coded {
  Bytes bytes;
  Elements elements;  // as the receiver decodes them
};

Coded code(const std::vector<float>& x, const std::vector<float>& mirror, const Options& options) {
  delta::HostDelta own;
  Coded coded;
  BOOST_REQUIRE(
      delta::encode({.base = x, .offset = {}, .mirror = mirror}, options, coded.bytes, own));
  const auto status = delta::decode(coded.bytes, x.size(), coded.elements);
  BOOST_REQUIRE_MESSAGE(status.has_value(), (status ? std::string() : status.error().text));
  BOOST_REQUIRE(own.elements().indices == coded.elements.indices);
  BOOST_REQUIRE(own.elements().values == coded.elements.values);
  return coded;
}

double norm(const std::vector<float>& values) {
  double sum = 0;
  for (const float value : values) sum += static_cast<double>(value) * value;
  return std::sqrt(sum);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(codec)

BOOST_AUTO_TEST_CASE(a_delta_changes_exactly_the_selected_elements_by_exactly_what_was_sent) {
  constexpr std::uint64_t kSeed = 31;
  Rng rng(kSeed);
  for (const std::size_t n :
       {std::size_t{1}, std::size_t{50}, std::size_t{4097}, std::size_t{105866}}) {
    for (const int bits : {1, 2, 3, 4, 8}) {
      for (const std::uint32_t block : {1U, 32U, 128U, 65535U}) {
        BOOST_TEST_CONTEXT("seed " << kSeed << ", n " << n << ", bits " << bits << ", block "
                                   << block) {
          const auto x = normals(n, rng);
          const auto before = normals(n, rng);
          const auto [bytes, sent] =
              code(x, before, {.density = 0.02, .bits = bits, .block = block});
          BOOST_TEST(sent.size() == delta::count_for(0.02, n));
          auto after = before;
          for (std::size_t k = 0; k < sent.size(); ++k) after[sent.indices[k]] += sent.values[k];
          std::size_t j = 0;
          for (std::size_t i = 0; i < n; ++i) {
            if (j < sent.size() && sent.indices[j] == i) {
              const float difference = x[i] - before[i];
              BOOST_REQUIRE(std::signbit(sent.values[j]) == std::signbit(difference));
              BOOST_REQUIRE(after[i] == before[i] + sent.values[j]);
              BOOST_REQUIRE(after[i] != before[i]);
              ++j;
            } else {
              BOOST_REQUIRE(after[i] == before[i]);
            }
          }
          BOOST_TEST(j == sent.size());
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(nothing_smaller_than_what_is_left_out_is_sent) {
  Rng rng(32);
  const std::size_t n = 120000;
  const auto x = normals(n, rng);
  const std::vector<float> zero(n, 0.0F);
  const auto sent = code(x, zero, {.density = 0.01}).elements;
  float least_sent = std::numeric_limits<float>::max();
  std::vector<float> rest = x;
  for (const std::uint32_t i : sent.indices) {
    least_sent = std::min(least_sent, std::fabs(x[i]));
    rest[i] = 0.0F;
  }
  for (const float value : rest) BOOST_REQUIRE(std::fabs(value) <= least_sent);
}

BOOST_AUTO_TEST_CASE(the_density_asked_for_is_met_for_every_distribution) {
  constexpr std::uint64_t kSeed = 33;
  Rng rng(kSeed);
  const std::size_t n = 100000;
  const std::vector<float> zero(n, 0.0F);
  for (const auto& input : delta::test::inputs(n, rng)) {
    const auto nonzero = static_cast<std::size_t>(
        std::ranges::count_if(input.values, [](float value) { return value != 0.0F; }));
    for (const double density : {0.001, 0.01, 0.1}) {
      BOOST_TEST_CONTEXT("seed " << kSeed << ", " << input.name << ", density " << density) {
        const auto sent = code(input.values, zero, {.density = density}).elements;
        const double asked =
            std::min(density * static_cast<double>(n), static_cast<double>(nonzero));
        BOOST_TEST(std::fabs(static_cast<double>(sent.size()) - asked) <= 0.05 * asked);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(errors_stay_below_the_bound_of_their_bits) {
  constexpr std::uint64_t kSeed = 34;
  Rng rng(kSeed);
  const std::size_t n = 100000;
  const std::vector<float> zero(n, 0.0F);
  const auto x = normals(n, rng);
  const std::array<std::pair<int, double>, 5> bounds{
      {{8, 0.004}, {4, 0.05}, {3, 0.1}, {2, 0.15}, {1, 0.15}}};
  for (const auto& [bits, bound] : bounds) {
    const auto sent = code(x, zero, {.density = 0.01, .bits = bits, .block = 128}).elements;
    std::vector<float> chosen;
    std::vector<float> error;
    for (std::size_t j = 0; j < sent.size(); ++j) {
      chosen.push_back(x[sent.indices[j]]);
      error.push_back(x[sent.indices[j]] - sent.values[j]);
    }
    BOOST_TEST_CONTEXT("seed " << kSeed << ", bits " << bits) {
      BOOST_TEST(norm(error) < bound * norm(chosen));
    }
  }
}

BOOST_AUTO_TEST_CASE(sending_always_shrinks_the_difference) {
  constexpr std::uint64_t kSeed = 35;
  Rng rng(kSeed);
  const std::size_t n = 20000;
  const std::vector<float> zero(n, 0.0F);
  for (const auto& input : delta::test::inputs(n, rng)) {
    for (const int bits : {1, 2, 3, 4, 8}) {
      for (const double density : {0.01, 0.5, 1.0}) {
        BOOST_TEST_CONTEXT("seed " << kSeed << ", " << input.name << ", bits " << bits
                                   << ", density " << density) {
          const auto sent = code(input.values, zero, {.density = density, .bits = bits}).elements;
          auto rest = input.values;
          for (std::size_t j = 0; j < sent.size(); ++j) rest[sent.indices[j]] -= sent.values[j];
          BOOST_TEST(norm(rest) < norm(input.values));
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(equal_ends_send_a_header_and_nothing_else) {
  Rng rng(36);
  const auto x = normals(1000, rng);
  const auto [bytes, sent] = code(x, x, {});
  BOOST_TEST(sent.size() == 0U);
  BOOST_TEST(bytes.size() == delta::format::kHeaderBytes);
}

BOOST_AUTO_TEST_CASE(a_small_delta_is_small) {
  Rng rng(37);
  const std::size_t n = 105866;
  const auto x = normals(n, rng);
  const std::vector<float> zero(n, 0.0F);
  const auto [bytes, sent] = code(x, zero, {.density = 0.001, .bits = 4, .block = 128});
  // 106 elements: about 11.5 bits an index, 4 a value, one scale, one header.
  BOOST_TEST(sent.size() == 106U);
  BOOST_TEST(bytes.size() < 12 + 4 + 53 + 106 * 12 / 8);
}

BOOST_AUTO_TEST_CASE(the_smallest_and_the_largest_differences_survive) {
  const float least = std::numeric_limits<float>::denorm_min();
  for (const float size : {least, 1e-38F, 1e30F}) {
    const std::vector<float> x{size, -size, 0.0F, size};
    const std::vector<float> zero(4, 0.0F);
    for (const int bits : {1, 2, 3, 4, 8}) {
      const auto sent = code(x, zero, {.density = 1.0, .bits = bits}).elements;
      BOOST_REQUIRE(sent.size() == 3U);
      for (const float value : sent.values) BOOST_TEST(std::isfinite(value));
      BOOST_TEST(sent.values[0] > 0.0F);
      BOOST_TEST(sent.values[1] < 0.0F);
    }
  }
}

BOOST_AUTO_TEST_CASE(what_is_not_finite_is_an_error_that_names_the_parameter) {
  Rng rng(38);
  const std::vector<float> zero(100000, 0.0F);
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(), 2e30F}) {
    auto x = normals(100000, rng);
    x[4242] = bad;
    delta::HostDelta own;
    Bytes out;
    const auto result = delta::encode({.base = x, .offset = {}, .mirror = zero}, {}, out, own);
    BOOST_REQUIRE(!result.has_value());
    BOOST_TEST((result.error().code == base::ErrorCode::diverged));
    BOOST_TEST(result.error().text.find("4242") != std::string::npos);
    BOOST_TEST(out.empty());
  }
}

BOOST_AUTO_TEST_SUITE_END()
