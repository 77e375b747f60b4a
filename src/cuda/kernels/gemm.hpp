// A product of matrices by rows, and the same in cuBLAS's terms.
#pragma once

#include <cstddef>
#include <cstdint>

namespace starling::compute::cuda {

/// A factor: element (r, c) lies at data[r * stride + c], or at data[c * stride + r] if turned.
struct Factor {
  const void* data = nullptr;  ///< floats, or bfloat16: Gemm::rounded
  std::size_t stride = 0;
  bool turned = false;
  std::size_t step = 0;  ///< elements from one product of a batch to the next
};

/// result = left right + bias (+ also), then a ReLU: `batch` such products. `left` is rows x depth,
/// `right` depth x columns; one bias per column, in a batch of one.
struct Gemm {
  std::size_t rows = 0;
  std::size_t columns = 0;
  std::size_t depth = 0;
  Factor left;
  Factor right;
  void* result = nullptr;  ///< floats, or bfloat16: result_rounded
  std::size_t result_stride = 0;
  std::size_t batch = 1;
  std::size_t result_step = 0;
  const float* bias = nullptr;
  /// The bias in bfloat16: cuBLASLt needs it with a rounded result.
  const std::uint16_t* rounded_bias = nullptr;
  const float* also = nullptr;  ///< laid out like the result, which is then not rounded; or null
  bool relu = false;
  bool rounded = false;         ///< both factors are bfloat16; sums are float32
  bool result_rounded = false;  ///< rounded once sums are complete
};

/// A matrix in memory, column by column: element (r, c) at data[c * stride + r].
struct ColumnMatrix {
  std::uint64_t rows = 0;
  std::uint64_t columns = 0;
  std::int64_t stride = 0;
  std::int64_t step = 0;
};

/// D = op(A) op(B), all column by column: rows of one form are columns of the other, so this
/// computes D = result^T from A = right^T and B = left^T. op transposes if requested.
struct ColumnGemm {
  bool transpose_a = false;
  bool transpose_b = false;
  ColumnMatrix a, b, d;
};

[[nodiscard]] constexpr ColumnGemm by_columns(const Gemm& gemm) {
  const auto matrix = [](std::size_t rows, std::size_t columns, std::size_t stride,
                         std::size_t step) {
    return ColumnMatrix{rows, columns, static_cast<std::int64_t>(stride),
                        static_cast<std::int64_t>(step)};
  };
  const Factor& left = gemm.left;
  const Factor& right = gemm.right;
  return {.transpose_a = right.turned,
          .transpose_b = left.turned,
          .a = right.turned ? matrix(gemm.depth, gemm.columns, right.stride, right.step)
                            : matrix(gemm.columns, gemm.depth, right.stride, right.step),
          .b = left.turned ? matrix(gemm.rows, gemm.depth, left.stride, left.step)
                           : matrix(gemm.depth, gemm.rows, left.stride, left.step),
          .d = matrix(gemm.columns, gemm.rows, gemm.result_stride, gemm.result_step)};
}

}  // namespace starling::compute::cuda
