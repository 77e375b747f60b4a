#include "delta/select.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>

#include <boost/test/unit_test.hpp>

#include "delta/source.hpp"
#include "vectors.hpp"

using starling::base::BFloat16;
using starling::base::Rng;
using starling::delta::Difference;
using starling::delta::DifferenceSource;
using starling::delta::Elements;

namespace {

constexpr float kLimit = 1e30F;

Elements select_largest(const Difference& difference, std::size_t count) {
  DifferenceSource source;
  source.read(difference);
  const auto choice = starling::delta::select_largest(source, count, kLimit, {});
  BOOST_REQUIRE(choice.has_value());
  const Elements& chosen = source.chosen();
  BOOST_TEST(choice->count == chosen.size());
  std::optional<std::uint32_t> beyond;
  for (std::size_t j = chosen.size(); j-- > 0;) {
    if (!(std::fabs(chosen.values[j]) <= kLimit)) beyond = chosen.indices[j];
  }
  BOOST_TEST((choice->beyond == beyond));
  return chosen;
}

Elements select(const std::vector<float>& values, std::size_t count) {
  const std::vector<float> zero(values.size(), 0.0F);
  return select_largest({.base = values, .offset = {}, .mirror = zero}, count);
}

// The definition: sort by magnitude, then by index; leave out zeros.
std::vector<std::uint32_t> expected(const std::vector<float>& values, std::size_t count) {
  std::vector<std::uint32_t> order(values.size());
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    return std::fabs(values[a]) > std::fabs(values[b]);
  });
  order.resize(std::min(count, order.size()));
  std::erase_if(order, [&](std::uint32_t i) { return values[i] == 0.0F; });
  std::sort(order.begin(), order.end());
  return order;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(select_)

BOOST_AUTO_TEST_CASE(exactly_the_largest_are_chosen_whatever_the_distribution) {
  constexpr std::uint64_t kSeed = 11;
  Rng rng(kSeed);
  for (const std::size_t n :
       {std::size_t{1}, std::size_t{7}, std::size_t{1000}, std::size_t{105866}}) {
    for (const auto& input : starling::delta::test::inputs(n, rng)) {
      for (const double density : {0.001, 0.01, 0.1, 0.5, 1.0}) {
        const auto count =
            std::max<std::size_t>(1, static_cast<std::size_t>(density * static_cast<double>(n)));
        BOOST_TEST_CONTEXT("seed " << kSeed << ", n " << n << ", " << input.name << ", density "
                                   << density) {
          const Elements chosen = select(input.values, count);
          BOOST_TEST((chosen.indices == expected(input.values, count)));
          for (std::size_t j = 0; j < chosen.size(); ++j) {
            BOOST_REQUIRE(chosen.values[j] == input.values[chosen.indices[j]]);
          }
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(one_pass_is_enough_for_smooth_distributions) {
  constexpr std::uint64_t kSeed = 12;
  Rng rng(kSeed);
  for (const std::size_t n : {std::size_t{33'000}, std::size_t{105'866}, std::size_t{1'199'882}}) {
    const std::vector<float> zero(n, 0.0F);
    for (int round = 0; round < 4; ++round) {
      const auto inputs = starling::delta::test::inputs(n, rng);
      for (const std::size_t which : {0U, 1U, 2U}) {
        DifferenceSource source;
        source.read({.base = inputs[which].values, .offset = {}, .mirror = zero});
        std::size_t tried = 0;
        std::size_t failed = 0;
        for (double density = 1e-4; density < 0.5; density *= 1.7, ++tried) {
          const auto count = static_cast<std::size_t>(density * static_cast<double>(n)) + 1;
          const auto choice = starling::delta::select_largest(source, count, kLimit, {});
          BOOST_REQUIRE(choice.has_value());
          failed += choice->in_one_pass ? 0 : 1;
        }
        BOOST_TEST_CONTEXT("seed " << kSeed << ", n " << n << ", " << inputs[which].name) {
          BOOST_TEST(failed == 0U);
          BOOST_TEST(tried > 10U);
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(nothing_is_chosen_of_zeros) {
  BOOST_TEST(select(std::vector<float>(100, 0.0F), 10).size() == 0U);
  BOOST_TEST(select(std::vector<float>(100000, -0.0F), 10).size() == 0U);
}

BOOST_AUTO_TEST_CASE(one_element_that_moved_is_found_among_a_million) {
  std::vector<float> values(1000000, 0.0F);
  values[987654] = std::numeric_limits<float>::denorm_min();
  const Elements chosen = select(values, 1000);
  BOOST_REQUIRE(chosen.size() == 1U);
  BOOST_TEST(chosen.indices[0] == 987654U);
}

BOOST_AUTO_TEST_CASE(values_that_are_not_finite_are_always_chosen) {
  Rng rng(5);
  std::vector<float> values = starling::delta::test::normals(200000, rng);
  values[123456] = std::numeric_limits<float>::quiet_NaN();
  values[7] = -std::numeric_limits<float>::infinity();
  const Elements chosen = select(values, 2);
  BOOST_REQUIRE(chosen.size() == 2U);
  BOOST_TEST(chosen.indices[0] == 7U);
  BOOST_TEST(chosen.indices[1] == 123456U);
}

BOOST_AUTO_TEST_CASE(the_difference_is_computed_in_one_order_wherever_it_is_read) {
  Rng rng(6);
  const auto base = starling::delta::test::normals(50000, rng);
  const auto offset = starling::delta::test::normals(50000, rng, 1e-3F);
  const auto mirror = starling::delta::test::normals(50000, rng);
  const Difference difference{.base = base, .offset = offset, .mirror = mirror};
  const Elements chosen = select_largest(difference, 500);
  BOOST_TEST(chosen.size() == 500U);
  for (std::size_t j = 0; j < chosen.size(); ++j) {
    const std::size_t i = chosen.indices[j];
    const float x = base[i] + offset[i];
    BOOST_REQUIRE(chosen.values[j] == x - mirror[i]);
    BOOST_REQUIRE(chosen.values[j] == difference.at(i));
  }
}

BOOST_AUTO_TEST_CASE(a_mirror_in_bfloat16_is_read_as_the_floats_it_stands_for) {
  constexpr std::uint64_t kSeed = 15;
  Rng rng(kSeed);
  for (const std::size_t n : {std::size_t{33}, std::size_t{5000}, std::size_t{40'003}}) {
    const auto inputs = starling::delta::test::inputs(n, rng);
    for (std::size_t k = 0; k + 1 < inputs.size(); ++k) {
      std::vector<BFloat16> half(n);
      std::vector<float> full(n);
      starling::base::narrow(inputs[k + 1].values, half);
      starling::base::widen(half, full);
      const std::vector<float>& base = inputs[k].values;
      for (const bool with_offset : {false, true}) {
        const auto offset = with_offset ? std::span(base) : std::span<const float>();
        const Difference narrow{base, offset, std::span<const BFloat16>(half)};
        const Elements chosen = select_largest(narrow, n / 20 + 1);
        const Elements wanted = select_largest({base, offset, full}, n / 20 + 1);
        BOOST_TEST_CONTEXT("seed " << kSeed << ", n " << n << ", " << inputs[k].name) {
          BOOST_TEST((chosen.indices == wanted.indices));
          BOOST_TEST((chosen.values == wanted.values));
        }
      }
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
