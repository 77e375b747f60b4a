// Plain matrices in double precision, to compare with.
#pragma once

#include <cmath>
#include <cstddef>
#include <vector>

namespace starling::train {

struct PlainMatrix {
  std::size_t rows = 0;
  std::size_t cols = 0;
  std::vector<double> values{};

  [[nodiscard]] double& at(std::size_t row, std::size_t col) { return values[row * cols + col]; }
  [[nodiscard]] double at(std::size_t row, std::size_t col) const {
    return values[row * cols + col];
  }
};

inline PlainMatrix transposed(const PlainMatrix& a) {
  PlainMatrix t{a.cols, a.rows, std::vector<double>(a.values.size())};
  for (std::size_t i = 0; i < a.rows; ++i) {
    for (std::size_t j = 0; j < a.cols; ++j) t.at(j, i) = a.at(i, j);
  }
  return t;
}

inline PlainMatrix product(const PlainMatrix& a, const PlainMatrix& b) {
  PlainMatrix c{a.rows, b.cols, std::vector<double>(a.rows * b.cols)};
  for (std::size_t i = 0; i < a.rows; ++i) {
    for (std::size_t k = 0; k < a.cols; ++k) {
      for (std::size_t j = 0; j < b.cols; ++j) c.at(i, j) += a.at(i, k) * b.at(k, j);
    }
  }
  return c;
}

/// Muon's iteration as its authors write it down.
inline PlainMatrix plain_newton_schulz(PlainMatrix x) {
  const bool tall = x.rows > x.cols;
  if (tall) x = transposed(x);
  double squares = 0;
  for (const double value : x.values) squares += value * value;
  for (double& value : x.values) value /= std::sqrt(squares) + 1e-7;
  for (int step = 0; step < 5; ++step) {
    const PlainMatrix a = product(x, transposed(x));
    PlainMatrix b = product(a, a);
    for (std::size_t i = 0; i < b.values.size(); ++i) {
      b.values[i] = -4.7750 * a.values[i] + 2.0315 * b.values[i];
    }
    const PlainMatrix bx = product(b, x);
    for (std::size_t i = 0; i < x.values.size(); ++i) {
      x.values[i] = 3.4445 * x.values[i] + bx.values[i];
    }
  }
  return tall ? transposed(x) : x;
}

}  // namespace starling::train
