// Compiled with the flags of AMX. As in gemm_kernel.cpp, no standard header with inline functions
// may be included here.
#include <immintrin.h>

#include "compute/cpu/gemm_bf16_kernel.hpp"

namespace starling::compute::cpu {

namespace {

constexpr std::size_t kSide = 2 * kBf16Lines;  // of the result of four tiles
constexpr std::size_t kStep = 2 * kBf16Block;  // from one step's tiles to the next one's

// Palette 1: eight tiles of 16 rows of 64 bytes.
struct alignas(64) TileConfig {
  std::uint8_t palette = 1;
  std::uint8_t start_row = 0;
  std::uint8_t reserved[14] = {};
  std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
constexpr TileConfig kConfig;
static_assert(sizeof kConfig == 64);

template <bool kTall, bool kWide>
void multiply(const Bf16Tile& tile) {
  const float* const start = tile.add ? tile.out : tile.bias;
  const std::size_t below = tile.add ? tile.stride : 0;  // a bias starts every row
  if (start != nullptr) {
    _tile_loadd(0, start, below * sizeof(float));
    if constexpr (kWide) _tile_loadd(1, start + 16, below * sizeof(float));
    if constexpr (kTall) _tile_loadd(2, start + 16 * below, below * sizeof(float));
    if constexpr (kTall && kWide) _tile_loadd(3, start + 16 * below + 16, below * sizeof(float));
  } else {
    _tile_zero(0);
    if constexpr (kWide) _tile_zero(1);
    if constexpr (kTall) _tile_zero(2);
    if constexpr (kTall && kWide) _tile_zero(3);
  }
  const std::uint32_t* left = tile.left;
  const std::uint32_t* right = tile.right;
  for (std::size_t k = 0; k < tile.depth; k += kBf16Steps, left += kStep, right += kStep) {
    _tile_loadd(4, left, 64);
    _tile_loadd(6, right, 64);
    _tile_dpbf16ps(0, 4, 6);
    if constexpr (kWide) {
      _tile_loadd(7, right + kBf16Block, 64);
      _tile_dpbf16ps(1, 4, 7);
    }
    if constexpr (kTall) {
      _tile_loadd(5, left + kBf16Block, 64);
      _tile_dpbf16ps(2, 5, 6);
    }
    if constexpr (kTall && kWide) _tile_dpbf16ps(3, 5, 7);
  }
  const std::size_t step = tile.stride * sizeof(float);
  _tile_stored(0, tile.out, step);
  if constexpr (kWide) _tile_stored(1, tile.out + 16, step);
  if constexpr (kTall) _tile_stored(2, tile.out + 16 * tile.stride, step);
  if constexpr (kTall && kWide) _tile_stored(3, tile.out + 16 * tile.stride + 16, step);
}

void multiply_whole(const Bf16Tile& tile) {
  const bool tall = tile.rows > kBf16Lines;
  const bool wide = tile.columns > kBf16Lines;
  if (tall) return wide ? multiply<true, true>(tile) : multiply<true, false>(tile);
  return wide ? multiply<false, true>(tile) : multiply<false, false>(tile);
}

/// A tile with odd sides is computed beside the result.
void multiply_any(const Bf16Tile& tile) {
  if (tile.rows % kBf16Lines == 0 && tile.columns % kBf16Lines == 0) return multiply_whole(tile);
  alignas(64) float whole[kSide * kSide];
  Bf16Tile beside = tile;
  beside.out = whole;
  beside.stride = kSide;
  beside.add = false;
  beside.bias = nullptr;
  multiply_whole(beside);
  for (std::size_t i = 0; i < tile.rows; ++i) {
    for (std::size_t j = 0; j < tile.columns; ++j) {
      float& place = tile.out[i * tile.stride + j];
      const float start = tile.add ? place : tile.bias != nullptr ? tile.bias[j] : 0.0F;
      place = start + whole[i * kSide + j];
    }
  }
}

void begin() { _tile_loadconfig(&kConfig); }
void end() { _tile_release(); }

}  // namespace

const Bf16Kernel kBf16Amx{.name = "amx",
                          .suits_every_convolution = true,
                          .rows = kSide,
                          .columns = kSide,
                          .multiply = multiply_any,
                          .begin = begin,
                          .end = end};

}  // namespace starling::compute::cpu
