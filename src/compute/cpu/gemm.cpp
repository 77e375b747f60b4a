// Blocked as in Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication" (2008):
// a packed block of the left matrix stays in the second-level cache while panels of the right one,
// packed just before their first use, go through the first-level cache.
#include "compute/cpu/gemm.hpp"

#include <algorithm>
#include <vector>

#include "base/integer.hpp"
#include "compute/cpu/gemm_bf16.hpp"
#include "compute/cpu/gemm_kernel.hpp"
#include "compute/cpu/gemm_parts.hpp"
#include "compute/cpu/kernel.hpp"

namespace starling::compute::cpu {

namespace {

constexpr std::size_t kDepth = 256;      // of a block: a panel of the right matrix takes 16 KiB
constexpr std::size_t kBlockRows = 192;  // a block of the left one takes 192 KiB
constexpr std::size_t kBlockColumns = 1024;
constexpr std::size_t kSlack = 32;  // packing may write a little past the end
constexpr std::size_t kLargestTile = 12 * 32;

/// Packed parts of one thread; kept, so that a step of training allocates nothing.
struct Scratch {
  std::vector<float> left, right;
};
Scratch& scratch() {
  thread_local Scratch mine;
  return mine;
}

/// Packs `count` columns of a matrix into panels of kWidth, in memory order: a row is often in
/// another page than the one before.
template <std::size_t kWidth>
void pack_across(std::size_t depth, std::size_t count, const float* from, std::size_t stride,
                 float* to) {
  for (std::size_t k = 0; k < depth; ++k, from += stride, to += kWidth) {
    std::size_t i = 0;
    for (; i + kWidth <= count; i += kWidth) {
      __builtin_memcpy(to + i * depth, from + i, kWidth * sizeof(float));
    }
    if (i == count) continue;
    for (std::size_t j = 0; j < kWidth; ++j) to[i * depth + j] = i + j < count ? from[i + j] : 0.0F;
  }
}

void pack_across(std::size_t width, std::size_t depth, std::size_t count, const float* from,
                 std::size_t stride, float* to) {
  switch (width) {
    case 6:
      return pack_across<6>(depth, count, from, stride, to);
    case 8:
      return pack_across<8>(depth, count, from, stride, to);
    case 12:
      return pack_across<12>(depth, count, from, stride, to);
    case 16:
      return pack_across<16>(depth, count, from, stride, to);
    default:
      return pack_across<32>(depth, count, from, stride, to);
  }
}

/// Rows from `row`, steps of depth from `k`.
void pack_left(const GemmKernel& kernel, const MatrixView& left, std::size_t row, std::size_t rows,
               std::size_t k, std::size_t depth, float* to) {
  if (left.transposed) {
    return pack_across(kernel.rows, depth, rows, left.data + k * left.stride + row, left.stride,
                       to);
  }
  for (std::size_t i = 0; i < rows; i += kernel.rows, to += kernel.rows * depth) {
    kernel.pack_rows(depth, std::min(kernel.rows, rows - i),
                     left.data + (row + i) * left.stride + k, left.stride, to);
  }
}

void pack_right(const GemmKernel& kernel, const MatrixView& right, std::size_t column,
                std::size_t count, std::size_t k, std::size_t depth, float* to) {
  if (right.transposed) {
    kernel.pack_columns(depth, count, right.data + column * right.stride + k, right.stride, to);
  } else {
    pack_across(kernel.columns, depth, count, right.data + k * right.stride + column, right.stride,
                to);
  }
}

/// A tile at the edge of the result is computed as a whole tile in a buffer.
void edge_tile(const GemmKernel& kernel, std::size_t depth, const float* left, const float* right,
               float* result, std::size_t stride, std::size_t rows, std::size_t columns, bool add,
               const float* bias) {
  alignas(64) float whole[kLargestTile];
  kernel.tile(depth, left, right, whole, kernel.columns, false, nullptr);
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t j = 0; j < columns; ++j) {
      float& place = result[i * stride + j];
      const float start = add ? place : bias != nullptr ? bias[j] : 0.0F;
      place = start + whole[i * kernel.columns + j];
    }
  }
}

/// Every packed row of a block with one packed panel.
void panel_tiles(const GemmKernel& kernel, std::size_t depth, std::size_t rows, const float* left,
                 const float* right, float* result, std::size_t stride, std::size_t columns,
                 bool add, const float* bias) {
  for (std::size_t i = 0; i < rows; i += kernel.rows, left += kernel.rows * depth) {
    float* const place = result + i * stride;
    if (columns == kernel.columns && rows - i >= kernel.rows) {
      kernel.tile(depth, left, right, place, stride, add, bias);
    } else {
      edge_tile(kernel, depth, left, right, place, stride, std::min(kernel.rows, rows - i), columns,
                add, bias);
    }
  }
}

/// The part of the result in these rows and columns.
void gemm_part(const Gemm& p, std::size_t row_from, std::size_t row_to, std::size_t column_from,
               std::size_t column_to) {
  const GemmKernel& kernel = gemm_kernel();
  Scratch& packed = scratch();
  packed.left.resize(
      std::max(packed.left.size(), base::round_up(kBlockRows, kernel.rows) * kDepth + kSlack));
  packed.right.resize(std::max(packed.right.size(), kBlockColumns * kDepth + kSlack));
  for (std::size_t column = column_from; column < column_to; column += kBlockColumns) {
    const std::size_t columns = std::min(kBlockColumns, column_to - column);
    for (std::size_t k = 0; k < p.depth; k += kDepth) {
      const std::size_t depth = std::min(kDepth, p.depth - k);
      const bool add = p.add || k > 0;
      for (std::size_t row = row_from; row < row_to; row += kBlockRows) {
        const std::size_t rows = std::min(kBlockRows, row_to - row);
        const bool once = row_to - row_from <= kBlockRows;  // then panels need not be kept
        pack_left(kernel, p.left, row, rows, k, depth, packed.left.data());
        for (std::size_t j = 0; j < columns; j += kernel.columns) {
          float* const panel = packed.right.data() + (once ? 0 : j * depth);
          const std::size_t count = std::min(kernel.columns, columns - j);
          if (row == row_from) pack_right(kernel, p.right, column + j, count, k, depth, panel);
          panel_tiles(kernel, depth, rows, packed.left.data(), panel,
                      p.result + row * p.result_stride + column + j, p.result_stride, count, add,
                      p.bias == nullptr ? nullptr : p.bias + column + j);
        }
      }
    }
  }
}

}  // namespace

const GemmKernel& gemm_kernel() noexcept {
#if defined(__x86_64__)
  static const GemmKernel& chosen =
      __builtin_cpu_supports("avx512f")                                 ? kGemmAvx512
      : __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? kGemmAvx2
                                                                        : kGemmSse2;
  return chosen;
#else
  return kGemmSse2;
#endif
}

void gemm(const Gemm& p, std::uint32_t threads) {
  if (p.bfloat16 && has_bfloat16()) return gemm_bf16(*bf16_kernels().front(), p, threads);
  in_gemm_parts(
      p, threads, gemm_kernel().rows, gemm_kernel().columns,
      [&p](std::size_t row_from, std::size_t row_to, std::size_t column_from,
           std::size_t column_to) { gemm_part(p, row_from, row_to, column_from, column_to); });
}

}  // namespace starling::compute::cpu
