#include "delta/rice.hpp"

#include <algorithm>
#include <cmath>

#include <boost/test/unit_test.hpp>

#include "base/rng.hpp"

using starling::base::Buffer;
using starling::base::Rng;
using starling::delta::rice_decode;
using starling::delta::rice_encode;
using starling::delta::rice_parameter;

namespace {

std::vector<std::uint32_t> random_indices(std::size_t n, double density, Rng& rng) {
  std::vector<std::uint32_t> indices;
  for (std::size_t i = 0; i < n; ++i) {
    if (rng.uniform() < density) indices.push_back(static_cast<std::uint32_t>(i));
  }
  return indices;
}

double entropy_bits(double p) { return -p * std::log2(p) - (1 - p) * std::log2(1 - p); }

// Bits of the codes of random indices over the entropy of their places.
double ratio_to_bound(double density, Rng& rng) {
  constexpr std::size_t kN = 2000000;
  const auto indices = random_indices(kN, density, rng);
  Buffer bytes;
  rice_encode(indices, rice_parameter(indices, kN), bytes);
  const double p = static_cast<double>(indices.size()) / kN;
  return static_cast<double>(bytes.size()) * 8.0 / (kN * entropy_bits(p));
}

}  // namespace

BOOST_AUTO_TEST_SUITE(rice)

BOOST_AUTO_TEST_CASE(codes_are_within_two_percent_of_the_entropy_bound) {
  constexpr std::uint64_t kSeed = 21;
  Rng rng(kSeed);
  for (const double density : {0.001, 0.002, 0.003, 0.005, 0.01, 0.02, 0.03, 0.05, 0.07, 0.1}) {
    BOOST_TEST_CONTEXT("seed " << kSeed << ", density " << density) {
      BOOST_TEST(ratio_to_bound(density, rng) < 1.02);
    }
  }
}

BOOST_AUTO_TEST_CASE(codes_between_two_parameters_are_hardly_worse) {
  // Where two parameters are equally good, a Rice code is at its worst: at most 0.12 bits an index.
  constexpr std::uint64_t kSeed = 24;
  Rng rng(kSeed);
  for (const double density : {0.0585, 0.0295, 0.0148, 0.0074, 0.0037}) {
    BOOST_TEST_CONTEXT("seed " << kSeed << ", density " << density) {
      BOOST_TEST(ratio_to_bound(density, rng) < 1.0225);
    }
  }
}

BOOST_AUTO_TEST_CASE(every_parameter_gives_the_indices_back) {
  constexpr std::uint64_t kSeed = 22;
  Rng rng(kSeed);
  for (std::uint32_t parameter = 0; parameter <= 30; ++parameter) {
    BOOST_TEST_CONTEXT("seed " << kSeed << ", parameter " << parameter) {
      const std::size_t n = 1 + rng.below(std::size_t{1} << std::min(parameter + 8, 30U));
      std::vector<std::uint32_t> indices;
      for (int i = 0; i < 300; ++i) indices.push_back(static_cast<std::uint32_t>(rng.below(n)));
      indices.push_back(static_cast<std::uint32_t>(n - 1));
      std::sort(indices.begin(), indices.end());
      indices.erase(std::unique(indices.begin(), indices.end()), indices.end());
      Buffer bytes;
      rice_encode(indices, parameter, bytes);
      std::vector<std::uint32_t> back(indices.size());
      BOOST_TEST(rice_decode(bytes, parameter, n, back));
      BOOST_TEST((back == indices));
      BOOST_TEST(!rice_decode(bytes, parameter, n - 1, back));  // the last lies beyond
      bytes.push_back(std::byte{0});
      BOOST_TEST(!rice_decode(bytes, parameter, n, back));  // trailing byte
      bytes.pop_back();
      bytes.pop_back();
      BOOST_TEST(!rice_decode(bytes, parameter, n, back));  // cut
    }
  }
}

BOOST_AUTO_TEST_CASE(crowded_indices_take_fewer_bits_than_random_ones) {
  Rng rng(23);
  constexpr std::size_t kN = 1000000;
  std::vector<std::uint32_t> crowded = random_indices(kN / 10, 0.1, rng);
  std::vector<std::uint32_t> spread = random_indices(kN, 0.01, rng);
  Buffer few;
  rice_encode(crowded, rice_parameter(crowded, kN), few);
  Buffer more;
  rice_encode(spread, rice_parameter(spread, kN), more);
  BOOST_TEST(static_cast<double>(few.size()) < 0.75 * static_cast<double>(more.size()));
}

BOOST_AUTO_TEST_CASE(zeros_without_end_are_refused_after_one_pass) {
  const Buffer zeros(100000, std::byte{0});
  std::vector<std::uint32_t> out(1);
  BOOST_TEST(!rice_decode(zeros, 30, std::size_t{1} << 30, out));
}

BOOST_AUTO_TEST_SUITE_END()
