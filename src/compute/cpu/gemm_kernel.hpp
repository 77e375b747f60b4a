// The innermost loops of gemm, compiled once for each kind of vector registers.
#pragma once

#include <cstddef>

namespace starling::compute::cpu {

/// One way to compute tiles of a product. The panels are packed: for each k, `rows` values of the
/// left matrix side by side, and `columns` values of the right one.
struct GemmKernel {
  std::size_t rows;
  std::size_t columns;

  /// tile[i][j] = start[i][j] + sum over k of left[k][i] * right[k][j], where start is the tile
  /// itself if `add`, otherwise row `bias` of `columns` values, or zero. Any alignment.
  void (*tile)(std::size_t depth, const float* left, const float* right, float* tile,
               std::size_t tile_stride, bool add, const float* bias);

  /// The same with a left matrix that is not packed: its element (i, k) is at left[i + k * step]
  /// for tile_columns, at left[i * step + k] for tile_rows; without a bias.
  void (*tile_columns)(std::size_t depth, const float* left, std::size_t step, const float* right,
                       float* tile, std::size_t tile_stride, bool add);
  void (*tile_rows)(std::size_t depth, const float* left, std::size_t step, const float* right,
                    float* tile, std::size_t tile_stride, bool add);

  /// Packs `rows` (or `columns`) lines of a matrix, each with its depth values side by side:
  /// panel[k * width + i] = lines[i * stride + k]. Lines from `count` on are zero. Writes up to 16
  /// values past the panel.
  void (*pack_rows)(std::size_t depth, std::size_t count, const float* lines, std::size_t stride,
                    float* panel);
  void (*pack_columns)(std::size_t depth, std::size_t count, const float* lines, std::size_t stride,
                       float* panel);
};

/// The kernel for this processor.
[[nodiscard]] const GemmKernel& gemm_kernel() noexcept;

extern const GemmKernel kGemmSse2;
extern const GemmKernel kGemmAvx2;    // needs AVX2 and FMA
extern const GemmKernel kGemmAvx512;  // needs AVX512F

}  // namespace starling::compute::cpu
