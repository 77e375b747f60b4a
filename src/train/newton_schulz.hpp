// Orthogonalises a matrix by the iteration that Muon uses: Jordan et al., "Muon: an optimizer for
// hidden layers in neural networks", kellerjordan.github.io/posts/muon, 2024.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace starling::train {

/// Work space for matrices up to a size. One thread at a time.
///
/// Turns G = U S V^T approximately into U V^T: X = G / |G| (Frobenius), then five times
///     X = a X + (b A + c A^2) X  with  A = X X^T,  (a, b, c) = (3.4445, -4.7750, 2.0315)
/// This brings singular values from 1/400 of |G| upwards to between 0.68 and 1.21, but not nearer
/// to 1. A tall matrix is done from the other side, A = X^T X. In float32.
class NewtonSchulz {
 public:
  static constexpr int kIterations = 5;

  /// `elements`: of the largest matrix. `side`: the largest of all matrices' shorter sides.
  /// `threads`: of the products; the result does not depend on it.
  NewtonSchulz(std::size_t elements, std::size_t side, std::uint32_t threads);

  /// Works in place on a dense row-major matrix of rows x cols, both at least 1. Zeros stay zeros.
  /// Five times 4 r^2 l + 2 r^3 floating-point operations, r the shorter and l the longer side.
  void orthogonalise(std::span<float> matrix, std::size_t rows, std::size_t cols);

  [[nodiscard]] std::size_t memory_bytes() const noexcept;

 private:
  void iterate(const float* x, float* y, std::size_t rows, std::size_t cols);

  std::uint32_t threads_;
  std::vector<float> matrix_;   ///< every other X
  std::vector<float> square_;   ///< A
  std::vector<float> quartic_;  ///< b A + c A^2
};

}  // namespace starling::train
