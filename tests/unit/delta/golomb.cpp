#include "delta/golomb.hpp"

#include <algorithm>
#include <cmath>

#include <boost/test/unit_test.hpp>

#include "base/rng.hpp"
#include "delta/format.hpp"

using starling::base::Bytes;
using starling::base::Rng;
using starling::delta::Coding;
using starling::delta::golomb_decode;
using starling::delta::golomb_encode;
using starling::delta::golomb_parameter;
using starling::delta::kCodesPerRun;
using starling::delta::starts_are_sound;
using starling::delta::starts_bytes;
using starling::delta::format::golomb_odd;
using starling::delta::format::golomb_shift;
using starling::delta::format::kGolombMax;

namespace {

std::vector<std::uint32_t> random_indices(std::size_t n, double density, Rng& rng) {
  std::vector<std::uint32_t> indices;
  for (std::size_t i = 0; i < n; ++i) {
    if (rng.uniform() < density) indices.push_back(static_cast<std::uint32_t>(i));
  }
  return indices;
}

double entropy_bits(double p) { return -p * std::log2(p) - (1 - p) * std::log2(1 - p); }

std::uint32_t parameter_of(const std::vector<std::uint32_t>& indices, std::size_t n) {
  std::vector<std::uint32_t> gaps;
  for (std::size_t j = 0; j < indices.size(); ++j) {
    gaps.push_back(j == 0 ? indices[0] : indices[j] - indices[j - 1] - 1);
  }
  return golomb_parameter(gaps, indices.size(), n);
}

Coding coding_of(std::uint32_t parameter) {
  return {.odd = golomb_odd(parameter), .shift = golomb_shift(parameter)};
}

// Starts and codes as they lie behind each other.
struct Codes {
  Bytes bytes;
  std::size_t count = 0;

  Codes(const std::vector<std::uint32_t>& indices, std::uint32_t parameter)
      : count(indices.size()) {
    golomb_encode(indices, coding_of(parameter), bytes);
  }
  [[nodiscard]] std::span<std::byte> starts() {
    return std::span(bytes).first(starts_bytes(count));
  }
  [[nodiscard]] std::span<std::byte> codes() {
    return std::span(bytes).subspan(starts_bytes(count));
  }
  // Whether the indices come back; `out` has the decoded ones.
  [[nodiscard]] bool decode(std::uint32_t parameter, std::size_t n,
                            std::vector<std::uint32_t>& out) {
    out.resize(count);
    return starts_are_sound(starts(), codes().size()) &&
           golomb_decode(starts(), codes(), coding_of(parameter), n, out);
  }
};

// Bits of the codes of random indices over the entropy of their places.
double ratio_to_bound(double density, Rng& rng) {
  constexpr std::size_t kElements = 2000000;
  const auto indices = random_indices(kElements, density, rng);
  const Codes codes(indices, parameter_of(indices, kElements));
  const double p = static_cast<double>(indices.size()) / kElements;
  return static_cast<double>(codes.bytes.size()) * 8.0 / (kElements * entropy_bits(p));
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
      Codes codes(indices, parameter);
      std::vector<std::uint32_t> back;
      BOOST_TEST(codes.decode(parameter, n, back));
      BOOST_TEST((back == indices));
      BOOST_TEST(!codes.decode(parameter, n - 1, back));  // the last lies beyond
      codes.bytes.push_back(std::byte{0});
      BOOST_TEST(!codes.decode(parameter, n, back));  // trailing byte
      codes.bytes.pop_back();
      codes.bytes.pop_back();
      BOOST_TEST(!codes.decode(parameter, n, back));  // cut
    }
  }
}

BOOST_AUTO_TEST_CASE(runs_begin_where_the_starts_say) {
  constexpr std::uint64_t kSeed = 24;
  Rng rng(kSeed);
  for (const std::size_t count :
       {kCodesPerRun - 1, kCodesPerRun, kCodesPerRun + 1, 3 * kCodesPerRun, 3 * kCodesPerRun + 5}) {
    BOOST_TEST_CONTEXT("seed " << kSeed << ", " << count << " indices") {
      std::vector<std::uint32_t> indices;
      for (std::uint32_t next = 0; indices.size() < count; ++next) {
        next += static_cast<std::uint32_t>(rng.below(200));
        indices.push_back(next);
      }
      const std::size_t n = indices.back() + 1U;
      const std::uint32_t parameter = parameter_of(indices, n);
      Codes codes(indices, parameter);
      std::vector<std::uint32_t> back;
      BOOST_TEST(codes.decode(parameter, n, back));
      BOOST_TEST((back == indices));
      // Each bit of the starts counts.
      for (std::byte& byte : codes.starts()) {
        for (int bit = 0; bit < 8; ++bit) {
          byte ^= std::byte{1} << bit;
          BOOST_REQUIRE(!codes.decode(parameter, n, back));
          byte ^= std::byte{1} << bit;
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(crowded_indices_take_fewer_bits_than_random_ones) {
  Rng rng(23);
  constexpr std::size_t kElements = 1000000;
  std::vector<std::uint32_t> crowded = random_indices(kElements / 10, 0.1, rng);
  std::vector<std::uint32_t> spread = random_indices(kElements, 0.01, rng);
  const Codes few(crowded, parameter_of(crowded, kElements));
  const Codes more(spread, parameter_of(spread, kElements));
  BOOST_TEST(static_cast<double>(few.bytes.size()) < 0.75 * static_cast<double>(more.bytes.size()));
}

BOOST_AUTO_TEST_CASE(zeros_without_end_are_refused_after_one_pass) {
  const Bytes zeros(100000, std::byte{0});
  std::vector<std::uint32_t> out(1);
  for (std::uint32_t parameter = 0; parameter <= kGolombMax; ++parameter) {
    BOOST_TEST(!golomb_decode({}, zeros, coding_of(parameter), std::size_t{1} << 30, out));
  }
}

BOOST_AUTO_TEST_SUITE_END()
