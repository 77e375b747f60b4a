#include "train/newton_schulz.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/assert.hpp"
#include "compute/cpu/gemm.hpp"
#include "train/update_kernels.hpp"

namespace starling::train {
namespace {

using compute::cpu::gemm;
using compute::cpu::MatrixView;

constexpr float kA = 3.4445F;
constexpr float kB = -4.7750F;
constexpr float kC = 2.0315F;
constexpr double kEpsilon = 1e-7;  ///< added to the norm

}  // namespace

NewtonSchulz::NewtonSchulz(std::size_t elements, std::size_t side, std::uint32_t threads)
    : threads_(threads), matrix_(elements), square_(side * side), quartic_(side * side) {}

void NewtonSchulz::orthogonalise(std::span<float> matrix, std::size_t rows, std::size_t cols) {
  const std::size_t side = std::min(rows, cols);
  ASSERT(side > 0 && matrix.size() == rows * cols);
  ASSERT(matrix.size() <= matrix_.size() && side * side <= square_.size());
  const double norm = std::sqrt(kernels::sum_of_squares(matrix.data(), matrix.size()));
  kernels::scale(matrix.size(), matrix.data(), static_cast<float>(1.0 / (norm + kEpsilon)));
  float* x = matrix.data();
  float* y = matrix_.data();
  for (int i = 0; i < kIterations; ++i) {
    iterate(x, y, rows, cols);
    std::swap(x, y);
  }
  if (x != matrix.data()) std::copy_n(x, matrix.size(), matrix.data());
}

// y = a x + (b A + c A^2) x, from the side on which A is small.
void NewtonSchulz::iterate(const float* x, float* y, std::size_t rows, std::size_t cols) {
  const bool tall = rows > cols;
  const std::size_t side = std::min(rows, cols);
  float* const square = square_.data();
  float* const quartic = quartic_.data();
  const MatrixView plain{x, cols};
  const MatrixView turned{x, cols, true};
  gemm({.rows = side,
        .columns = side,
        .depth = std::max(rows, cols),
        .left = tall ? turned : plain,
        .right = tall ? plain : turned,
        .result = square,
        .result_stride = side},
       threads_);
  const MatrixView a{square, side};
  gemm({.rows = side,
        .columns = side,
        .depth = side,
        .left = a,
        .right = a,
        .result = quartic,
        .result_stride = side},
       threads_);
  kernels::combine(side * side, quartic, kC, square, kB);
  const MatrixView b{quartic, side};
  gemm({.rows = rows,
        .columns = cols,
        .depth = side,
        .left = tall ? plain : b,
        .right = tall ? b : plain,
        .result = y,
        .result_stride = cols},
       threads_);
  kernels::combine(rows * cols, y, 1.0F, x, kA);
}

std::size_t NewtonSchulz::memory_bytes() const noexcept {
  return (matrix_.size() + square_.size() + quartic_.size()) * sizeof(float);
}

}  // namespace starling::train
