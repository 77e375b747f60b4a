// Products of dense matrices.
#pragma once

#include <cstddef>
#include <cstdint>

namespace starling::compute::cpu {

/// A view of a matrix of floats. A transposed one is read without a copy: element (i, j) is data[i
/// * stride + j], or data[j * stride + i] if `transposed`.
struct MatrixView {
  const float* data;
  std::size_t stride;
  bool transposed = false;
};

/// result (rows x columns, its rows `result_stride` apart) = left (rows x depth) * right (depth x
/// columns), plus the old result if `add`, otherwise plus `bias` (`columns` values, or null) in
/// each row. The result must not overlap the others. Uses `threads` threads of OpenMP; each keeps
/// up to 2 MiB for packed parts between calls. The result does not depend on the number of threads,
/// but on the processor's vector registers (sums are rounded after each 256 of depth). If
/// `bfloat16` and has_bfloat16(), left and right are rounded to bfloat16, and sums stay float32.
struct Gemm {
  std::size_t rows, columns, depth;
  MatrixView left, right;
  float* result;
  std::size_t result_stride;
  bool add = false;
  const float* bias = nullptr;
  bool bfloat16 = false;
};
void gemm(const Gemm& product, std::uint32_t threads = 1);

/// Whether this processor multiplies bfloat16 faster than float32, by AMX or AVX512-BF16, and the
/// system allows it.
[[nodiscard]] bool has_bfloat16() noexcept;

}  // namespace starling::compute::cpu
