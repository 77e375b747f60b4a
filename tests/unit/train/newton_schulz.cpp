#include "train/newton_schulz.hpp"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include <boost/test/unit_test.hpp>

#include "base/rng.hpp"
#include "matrices.hpp"

using namespace starling;
using namespace starling::train;

namespace {

std::vector<float> random_matrix(std::size_t size, base::Rng& rng) {
  std::vector<float> values(size);
  for (float& value : values) value = static_cast<float>(2 * rng.uniform() - 1);
  return values;
}

/// The squares of the singular values: eigenvalues of a a^T by Jacobi's rotations (Golub and Van
/// Loan, Matrix Computations, 8.5).
std::vector<double> squared_singular_values(const PlainMatrix& a) {
  PlainMatrix s = product(a, transposed(a));
  for (int sweep = 0; sweep < 20; ++sweep) {
    for (std::size_t p = 0; p < s.rows; ++p) {
      for (std::size_t q = p + 1; q < s.rows; ++q) {
        if (s.at(p, q) == 0) continue;
        const double angle = 0.5 * std::atan2(2 * s.at(p, q), s.at(q, q) - s.at(p, p));
        const double c = std::cos(angle);
        const double d = std::sin(angle);
        for (std::size_t k = 0; k < s.rows; ++k) {
          const auto [x, y] = std::pair(s.at(p, k), s.at(q, k));
          s.at(p, k) = c * x - d * y;
          s.at(q, k) = d * x + c * y;
        }
        for (std::size_t k = 0; k < s.rows; ++k) {
          const auto [x, y] = std::pair(s.at(k, p), s.at(k, q));
          s.at(k, p) = c * x - d * y;
          s.at(k, q) = d * x + c * y;
        }
      }
    }
  }
  std::vector<double> values;
  for (std::size_t i = 0; i < s.rows; ++i) values.push_back(s.at(i, i));
  return values;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(newton_schulz)

BOOST_AUTO_TEST_CASE(singular_values_come_near_one) {
  base::Rng rng(31);
  std::vector<float> values = random_matrix(24 * 40, rng);
  NewtonSchulz(24 * 40, 24, 1).orthogonalise(values, 24, 40);
  for (const double square : squared_singular_values({24, 40, {values.begin(), values.end()}})) {
    BOOST_TEST(std::sqrt(square) > 0.68, "seed 31: " << square);
    BOOST_TEST(std::sqrt(square) < 1.21, "seed 31: " << square);
  }
}

BOOST_AUTO_TEST_CASE(wide_square_and_tall_matrices_follow_the_plain_iteration) {
  const std::pair<std::size_t, std::size_t> shapes[] = {{5, 17}, {16, 16}, {33, 6}, {1, 9}, {7, 1}};
  NewtonSchulz work(256, 16, 1);
  base::Rng rng(32);
  for (const auto& [rows, cols] : shapes) {
    std::vector<float> values = random_matrix(rows * cols, rng);
    const PlainMatrix expected = plain_newton_schulz({rows, cols, {values.begin(), values.end()}});
    work.orthogonalise(values, rows, cols);
    double worst = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      worst = std::max(worst, std::abs(static_cast<double>(values[i]) - expected.values[i]));
    }
    BOOST_TEST(worst < 1e-4, rows << " x " << cols << ", seed 32");
  }
}

BOOST_AUTO_TEST_CASE(zeros_stay_zeros) {
  std::vector<float> values(12);
  NewtonSchulz(12, 3, 1).orthogonalise(values, 3, 4);
  BOOST_TEST(std::ranges::count(values, 0.0F) == 12);
}

BOOST_AUTO_TEST_SUITE_END()
