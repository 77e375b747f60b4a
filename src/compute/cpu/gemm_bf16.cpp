// Blocked like gemm.cpp, but values are rounded when they are packed.
#include "compute/cpu/gemm_bf16.hpp"

#include <algorithm>
#include <vector>

#include "base/integer.hpp"
#include "compute/cpu/gemm_parts.hpp"
#include "compute/cpu/kernel.hpp"

#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#define STARLING_BF16
#endif

namespace starling::compute::cpu {

#ifdef STARLING_BF16

namespace {

constexpr std::size_t kRoundedDepth = 512;  // of a block: a panel of 32 lines takes 32 KiB
constexpr std::size_t kRoundedRows = 256;   // a block of the left matrix takes up to 336 KiB
constexpr std::size_t kRoundedColumns = 1024;

/// A row of a block. AMX loads tiles whose rows cross cache lines three times slower.
struct alignas(64) BlockRow {
  std::uint32_t pairs[kBf16Steps / 2];
};

/// Packed parts of one thread; kept, so that a step of training allocates nothing.
struct RoundedScratch {
  std::vector<BlockRow> left, right;
};
RoundedScratch& rounded_scratch() {
  thread_local RoundedScratch mine;
  return mine;
}

/// Packed lines of a block, in panels of a tile's size.
struct Panels {
  std::size_t tile;
  std::uint32_t* memory;

  /// With room for `lines` lines.
  Panels(std::size_t tile_lines, std::size_t lines, std::vector<BlockRow>& rows)
      : tile(tile_lines) {
    const std::size_t values = base::ceil_div(lines, tile) * width() * kRoundedDepth;
    if (rows.size() * kBf16Steps < values) rows.resize(values / kBf16Steps);
    memory = rows.data()->pairs;
  }

  [[nodiscard]] std::size_t width() const { return base::round_up(tile, kBf16Lines); }
  [[nodiscard]] std::uint32_t* at(std::size_t line) const {
    return memory + line / tile * width() * kRoundedDepth / 2;
  }
};

/// A block's steps of depth, from `k` on.
struct Steps {
  std::size_t k, depth;
};

/// Packs `count` lines, at most those of a tile, from `line` on.
void pack_rounded(const MatrixView& matrix, bool right, std::size_t line, std::size_t count,
                  const Steps& steps, const Panels& panels, std::uint32_t* to) {
  const bool lines = matrix.transposed == right;
  bf16_pack({.from = matrix.data +
                     (lines ? line * matrix.stride + steps.k : steps.k * matrix.stride + line),
             .stride = matrix.stride,
             .lines = lines,
             .right = right,
             .width = panels.width(),
             .count = count,
             .depth = steps.depth},
            to);
}

/// `rows` packed rows from `row` on with one packed panel of `columns` columns from `column` on.
void rounded_tiles(const Bf16Kernel& kernel, const Gemm& p, const Steps& steps, const Panels& left,
                   const std::uint32_t* right, std::size_t row, std::size_t rows,
                   std::size_t column, std::size_t columns) {
  for (std::size_t i = 0; i < rows; i += kernel.rows) {
    kernel.multiply({.left = left.at(i),
                     .right = right,
                     .rows = std::min(kernel.rows, rows - i),
                     .columns = columns,
                     .depth = steps.depth,
                     .out = p.result + (row + i) * p.result_stride + column,
                     .stride = p.result_stride,
                     .add = p.add || steps.k > 0,
                     .bias = p.bias == nullptr ? nullptr : p.bias + column});
  }
}

/// The part of the result in these rows and columns.
void gemm_part_bf16(const Bf16Kernel& kernel, const Gemm& p, std::size_t row_from,
                    std::size_t row_to, std::size_t column_from, std::size_t column_to) {
  RoundedScratch& packed = rounded_scratch();
  const std::size_t block_rows = kRoundedRows / kernel.rows * kernel.rows;
  const bool once = row_to - row_from <= block_rows;  // then panels need not be kept
  const Panels left(kernel.rows, block_rows, packed.left);
  const Panels right(kernel.columns, once ? kernel.columns : kRoundedColumns, packed.right);
  for (std::size_t column = column_from; column < column_to; column += kRoundedColumns) {
    const std::size_t columns = std::min(kRoundedColumns, column_to - column);
    for (std::size_t k = 0; k < p.depth; k += kRoundedDepth) {
      const Steps steps{.k = k, .depth = std::min(kRoundedDepth, p.depth - k)};
      for (std::size_t row = row_from; row < row_to; row += block_rows) {
        const std::size_t rows = std::min(block_rows, row_to - row);
        for (std::size_t i = 0; i < rows; i += kernel.rows) {
          pack_rounded(p.left, false, row + i, std::min(kernel.rows, rows - i), steps, left,
                       left.at(i));
        }
        for (std::size_t j = 0; j < columns; j += kernel.columns) {
          const std::size_t count = std::min(kernel.columns, columns - j);
          std::uint32_t* const panel = right.at(once ? 0 : j);
          if (row == row_from) {
            pack_rounded(p.right, true, column + j, count, steps, right, panel);
          }
          rounded_tiles(kernel, p, steps, left, panel, row, rows, column + j, count);
        }
      }
    }
  }
}

bool avx512_bf16_is_there() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512bf16");
}

bool amx_is_there() {
  // In leaf 7; clang 14 has no name for it.
  constexpr unsigned kAmxBf16 = 1U << 22U;
  constexpr unsigned kAmxTile = 1U << 24U;
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  if (!avx512_bf16_is_there() || __get_cpuid_count(7, 0, &a, &b, &c, &d) == 0 ||
      (d & kAmxBf16) == 0 || (d & kAmxTile) == 0) {
    return false;
  }
  // A process has to ask Linux for the tiles' state before it uses them.
  constexpr long kArchReqXcompPerm = 0x1023;
  constexpr long kXfeatureXtiledata = 18;
  return syscall(SYS_arch_prctl, kArchReqXcompPerm, kXfeatureXtiledata) == 0;
}

}  // namespace

std::span<const Bf16Kernel* const> bf16_kernels() noexcept {
  static constexpr const Bf16Kernel* kKernels[] = {&kBf16Amx, &kBf16Avx512};
  static const std::span<const Bf16Kernel* const> there = amx_is_there() ? std::span(kKernels)
                                                          : avx512_bf16_is_there()
                                                              ? std::span(kKernels).last(1)
                                                              : std::span(kKernels).first(0);
  return there;
}

void gemm_bf16(const Bf16Kernel& kernel, const Gemm& p, std::uint32_t threads) {
  in_gemm_parts(p, threads, kernel.rows, kernel.columns,
                [&kernel, &p](std::size_t row_from, std::size_t row_to, std::size_t column_from,
                              std::size_t column_to) {
                  if (kernel.begin != nullptr) kernel.begin();
                  gemm_part_bf16(kernel, p, row_from, row_to, column_from, column_to);
                  if (kernel.end != nullptr) kernel.end();
                });
}

#else

std::span<const Bf16Kernel* const> bf16_kernels() noexcept { return {}; }

void gemm_bf16(const Bf16Kernel&, const Gemm&, std::uint32_t) {}

#endif

bool has_bfloat16() noexcept { return !bf16_kernels().empty(); }

}  // namespace starling::compute::cpu
