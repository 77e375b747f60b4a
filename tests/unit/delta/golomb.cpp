#include "delta/golomb.hpp"

#include <algorithm>
#include <cmath>

#include <boost/test/unit_test.hpp>

#include "base/rng.hpp"
#include "wire/delta_format.hpp"

using starling::base::Buffer;
using starling::base::Rng;
using starling::delta::golomb_decode;
using starling::delta::golomb_encode;
using starling::delta::golomb_parameter;
using starling::wire::delta_format::kGolombMax;

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
  constexpr std::size_t kElements = 2000000;
  const auto indices = random_indices(kElements, density, rng);
  Buffer bytes;
  golomb_encode(indices, golomb_parameter(indices, kElements), bytes);
  const double p = static_cast<double>(indices.size()) / kElements;
  return static_cast<double>(bytes.size()) * 8.0 / (kElements * entropy_bits(p));
}

}  // namespace

BOOST_AUTO_TEST_SUITE(golomb)

BOOST_AUTO_TEST_CASE(codes_are_within_one_percent_of_the_entropy_bound) {
  constexpr std::uint64_t kSeed = 21;
  Rng rng(kSeed);
  // From 0.1% to 10% in steps of 7%: at and between the densities that suit a divisor.
  for (double density = 0.001; density < 0.107; density *= 1.07) {
    BOOST_TEST_CONTEXT("seed " << kSeed << ", density " << density) {
      BOOST_TEST(ratio_to_bound(density, rng) < 1.01);
    }
  }
}

BOOST_AUTO_TEST_CASE(every_parameter_gives_the_indices_back) {
  constexpr std::uint64_t kSeed = 22;
  Rng rng(kSeed);
  for (std::uint32_t parameter = 0; parameter <= kGolombMax; ++parameter) {
    BOOST_TEST_CONTEXT("seed " << kSeed << ", parameter " << parameter) {
      const std::size_t n = 1 + rng.below(std::size_t{1} << std::min(parameter / 4 + 8, 30U));
      std::vector<std::uint32_t> indices;
      for (int i = 0; i < 300; ++i) indices.push_back(static_cast<std::uint32_t>(rng.below(n)));
      indices.push_back(static_cast<std::uint32_t>(n - 1));
      std::sort(indices.begin(), indices.end());
      indices.erase(std::unique(indices.begin(), indices.end()), indices.end());
      Buffer bytes;
      golomb_encode(indices, parameter, bytes);
      std::vector<std::uint32_t> back(indices.size());
      BOOST_TEST(golomb_decode(bytes, parameter, n, back));
      BOOST_TEST((back == indices));
      BOOST_TEST(!golomb_decode(bytes, parameter, n - 1, back));  // the last lies beyond
      bytes.push_back(std::byte{0});
      BOOST_TEST(!golomb_decode(bytes, parameter, n, back));  // trailing byte
      bytes.pop_back();
      bytes.pop_back();
      BOOST_TEST(!golomb_decode(bytes, parameter, n, back));  // cut
    }
  }
}

BOOST_AUTO_TEST_CASE(crowded_indices_take_fewer_bits_than_random_ones) {
  Rng rng(23);
  constexpr std::size_t kElements = 1000000;
  std::vector<std::uint32_t> crowded = random_indices(kElements / 10, 0.1, rng);
  std::vector<std::uint32_t> spread = random_indices(kElements, 0.01, rng);
  Buffer few;
  golomb_encode(crowded, golomb_parameter(crowded, kElements), few);
  Buffer more;
  golomb_encode(spread, golomb_parameter(spread, kElements), more);
  BOOST_TEST(static_cast<double>(few.size()) < 0.75 * static_cast<double>(more.size()));
}

BOOST_AUTO_TEST_CASE(zeros_without_end_are_refused_after_one_pass) {
  const Buffer zeros(100000, std::byte{0});
  std::vector<std::uint32_t> out(1);
  for (std::uint32_t parameter = 0; parameter <= kGolombMax; ++parameter) {
    BOOST_TEST(!golomb_decode(zeros, parameter, std::size_t{1} << 30, out));
  }
  BOOST_TEST(!golomb_decode(zeros, kGolombMax + 1, std::size_t{1} << 30, out));
}

BOOST_AUTO_TEST_SUITE_END()
