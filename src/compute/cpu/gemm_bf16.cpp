// Blocked as gemm.cpp is; what differs is that values are rounded as they are packed.
#include "compute/cpu/gemm_bf16.hpp"

#include <algorithm>
#include <vector>

#include "compute/cpu/gemm_amx.hpp"
#include "compute/cpu/kernel.hpp"

#if defined(__x86_64__) && defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#define STARLING_AMX
#endif

namespace starling::compute::cpu {

#ifdef STARLING_AMX

namespace {

constexpr std::size_t kRoundedDepth = 512;  // of a block: a panel takes 32 KiB
constexpr std::size_t kRoundedRows = 256;   // a block of the left matrix takes 256 KiB
constexpr std::size_t kRoundedColumns = 1024;
static_assert(kBf16Tile == kAmxLines);

/// A row of a tile. Tiles whose rows cross cache lines are loaded three times slower.
struct alignas(64) TileRow {
  std::uint32_t pairs[16];
};
constexpr std::size_t kRowValues = 32;

/// Packed parts of one thread; kept, so that a step of training allocates nothing.
struct RoundedScratch {
  std::vector<TileRow> left, right;
};
RoundedScratch& rounded_scratch() {
  thread_local RoundedScratch mine{
      std::vector<TileRow>(kRoundedRows * kRoundedDepth / kRowValues),
      std::vector<TileRow>(kRoundedColumns * kRoundedDepth / kRowValues)};
  return mine;
}

/// Packs `count` lines, kAmxLines at most, from `line` and step `k` on.
void pack_rounded(const MatrixView& matrix, bool right, std::size_t line, std::size_t count,
                  std::size_t k, std::size_t depth, std::uint32_t* to) {
  const bool lines = matrix.transposed == right;
  amx_pack({.from = matrix.data + (lines ? line * matrix.stride + k : k * matrix.stride + line),
            .stride = matrix.stride,
            .lines = lines,
            .right = right,
            .count = count,
            .depth = depth},
           to);
}

/// One tile, of any sides up to a whole one: an odd one is computed beside the result.
void multiply_tile(const AmxTile& tile) {
  if (tile.rows % kAmxHalf == 0 && tile.columns % kAmxHalf == 0) return amx_multiply(tile);
  alignas(64) float whole[kAmxLines * kAmxLines];
  AmxTile beside = tile;
  beside.out = whole;
  beside.stride = kAmxLines;
  beside.add = false;
  beside.bias = nullptr;
  amx_multiply(beside);
  for (std::size_t i = 0; i < tile.rows; ++i) {
    for (std::size_t j = 0; j < tile.columns; ++j) {
      float& place = tile.out[i * tile.stride + j];
      const float start = tile.add ? place : tile.bias != nullptr ? tile.bias[j] : 0.0F;
      place = start + whole[i * kAmxLines + j];
    }
  }
}

bool amx_is_there() {
  if (!__builtin_cpu_supports("amx-bf16") || !__builtin_cpu_supports("avx512bf16") ||
      !__builtin_cpu_supports("avx512bw")) {
    return false;
  }
  // A process has to ask Linux for the tiles' state before it uses them.
  constexpr long kArchReqXcompPerm = 0x1023;
  constexpr long kXfeatureXtiledata = 18;
  return syscall(SYS_arch_prctl, kArchReqXcompPerm, kXfeatureXtiledata) == 0;
}

}  // namespace

bool has_bfloat16() noexcept {
  static const bool there = amx_is_there();
  return there;
}

void gemm_part_bf16(const Gemm& p, std::size_t row_from, std::size_t row_to,
                    std::size_t column_from, std::size_t column_to) {
  RoundedScratch& packed = rounded_scratch();
  amx_begin();
  for (std::size_t column = column_from; column < column_to; column += kRoundedColumns) {
    const std::size_t columns = std::min(kRoundedColumns, column_to - column);
    for (std::size_t k = 0; k < p.depth; k += kRoundedDepth) {
      const std::size_t depth = std::min(kRoundedDepth, p.depth - k);
      std::uint32_t* const left = packed.left.data()->pairs;
      const std::size_t panel = kAmxLines / 2 * round_up(depth, kAmxSteps);
      for (std::size_t row = row_from; row < row_to; row += kRoundedRows) {
        const std::size_t rows = std::min(kRoundedRows, row_to - row);
        for (std::size_t i = 0; i < rows; i += kAmxLines) {
          pack_rounded(p.left, false, row + i, std::min(kAmxLines, rows - i), k, depth,
                       left + i / kAmxLines * panel);
        }
        for (std::size_t j = 0; j < columns; j += kAmxLines) {
          const std::size_t count = std::min(kAmxLines, columns - j);
          std::uint32_t* const right = packed.right.data()->pairs + j / kAmxLines * panel;
          if (row == row_from) pack_rounded(p.right, true, column + j, count, k, depth, right);
          for (std::size_t i = 0; i < rows; i += kAmxLines) {
            multiply_tile({.left = left + i / kAmxLines * panel,
                           .right = right,
                           .rows = std::min(kAmxLines, rows - i),
                           .columns = count,
                           .depth = depth,
                           .out = p.result + (row + i) * p.result_stride + column + j,
                           .stride = p.result_stride,
                           .add = p.add || k > 0,
                           .bias = p.bias == nullptr ? nullptr : p.bias + column + j});
          }
        }
      }
    }
  }
  amx_end();
}

#else

bool has_bfloat16() noexcept { return false; }

void gemm_part_bf16(const Gemm&, std::size_t, std::size_t, std::size_t, std::size_t) {}

#endif

}  // namespace starling::compute::cpu
