// Compiled with the flags of AMX and AVX-512, for processors that have both. As in gemm_kernel.cpp,
// no header of the standard library with inline functions may come in here.
#include "compute/cpu/gemm_amx.hpp"

#include <immintrin.h>

namespace starling::compute::cpu {

namespace {

constexpr std::size_t kTileInts = kAmxHalf * 16;  // 16 rows of 64 bytes
constexpr std::size_t kBlockInts = 2 * kTileInts;

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

/// The first `count` of 16, none of a negative number.
__mmask16 first(std::ptrdiff_t count) {
  return count >= 16 ? 0xffff : count <= 0 ? 0 : static_cast<__mmask16>((1U << count) - 1);
}

__m512i rounded(__m512 low, __m512 high) {
  return reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(high, low));
}

/// 16 lines of 32 steps each: a vector a line, its steps in pairs.
void load_lines(const float* from, std::size_t stride, std::ptrdiff_t count, std::ptrdiff_t depth,
                __m512i (&to)[16]) {
  const __mmask16 low = first(depth);
  const __mmask16 high = first(depth - 16);
  for (std::ptrdiff_t i = 0; i < 16; ++i, from += stride) {
    to[i] = i < count
                ? rounded(_mm512_maskz_loadu_ps(low, from), _mm512_maskz_loadu_ps(high, from + 16))
                : _mm512_setzero_si512();
  }
}

/// The same turned: a vector a pair of steps.
void load_steps(const float* from, std::size_t stride, std::ptrdiff_t count, std::ptrdiff_t depth,
                __m512i (&to)[16]) {
  // rounded() puts 16 values of a step behind those of the one before.
  const __m512i pairs = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24,
                                         8, 23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
  const __mmask16 mask = first(count);
  for (std::ptrdiff_t i = 0; i < 16; ++i, from += 2 * stride) {
    const __mmask16 low = 2 * i < depth ? mask : 0;
    const __mmask16 high = 2 * i + 1 < depth ? mask : 0;
    to[i] = _mm512_permutexvar_epi16(pairs, rounded(_mm512_maskz_loadu_ps(low, from),
                                                    _mm512_maskz_loadu_ps(high, from + stride)));
  }
}

/// Turns 16 x 16 integers: of pairs, of fours, then whole quarters of vectors.
void turn(__m512i (&v)[16]) {
  __m512i t[16];
  for (int i = 0; i < 16; i += 2) {
    t[i] = _mm512_unpacklo_epi32(v[i], v[i + 1]);
    t[i + 1] = _mm512_unpackhi_epi32(v[i], v[i + 1]);
  }
  for (int i = 0; i < 16; i += 4) {
    v[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
    v[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
    v[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
    v[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
  }
  for (int i = 0; i < 4; ++i) {
    t[i] = _mm512_shuffle_i32x4(v[i], v[4 + i], 0x88);
    t[4 + i] = _mm512_shuffle_i32x4(v[i], v[4 + i], 0xdd);
    t[8 + i] = _mm512_shuffle_i32x4(v[8 + i], v[12 + i], 0x88);
    t[12 + i] = _mm512_shuffle_i32x4(v[8 + i], v[12 + i], 0xdd);
  }
  for (int i = 0; i < 4; ++i) {
    v[i] = _mm512_shuffle_i32x4(t[i], t[8 + i], 0x88);
    v[4 + i] = _mm512_shuffle_i32x4(t[4 + i], t[12 + i], 0x88);
    v[8 + i] = _mm512_shuffle_i32x4(t[i], t[8 + i], 0xdd);
    v[12 + i] = _mm512_shuffle_i32x4(t[4 + i], t[12 + i], 0xdd);
  }
}

template <bool kTall, bool kWide>
void multiply(const AmxTile& tile) {
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
  for (std::size_t k = 0; k < tile.depth; k += kAmxSteps, left += kBlockInts, right += kBlockInts) {
    _tile_loadd(4, left, 64);
    _tile_loadd(6, right, 64);
    _tile_dpbf16ps(0, 4, 6);
    if constexpr (kWide) {
      _tile_loadd(7, right + kTileInts, 64);
      _tile_dpbf16ps(1, 4, 7);
    }
    if constexpr (kTall) {
      _tile_loadd(5, left + kTileInts, 64);
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

}  // namespace

void amx_pack(const AmxPanel& panel, std::uint32_t* to) noexcept {
  const auto depth = static_cast<std::ptrdiff_t>(panel.depth);
  const auto count = static_cast<std::ptrdiff_t>(panel.count);
  for (std::ptrdiff_t k = 0; k < depth; k += kAmxSteps) {
    for (std::ptrdiff_t line = 0; line < count; line += kAmxHalf) {
      __m512i block[16];
      const std::ptrdiff_t stride = static_cast<std::ptrdiff_t>(panel.stride);
      if (panel.lines) {
        load_lines(panel.from + line * stride + k, panel.stride, count - line, depth - k, block);
      } else {
        load_steps(panel.from + k * stride + line, panel.stride, count - line, depth - k, block);
      }
      if (panel.lines == panel.right) turn(block);
      std::uint32_t* const tile = to + (line > 0 ? kTileInts : 0);
      for (std::size_t i = 0; i < 16; ++i) _mm512_storeu_si512(tile + i * 16, block[i]);
    }
    to += kBlockInts;
  }
}

void amx_begin() noexcept { _tile_loadconfig(&kConfig); }
void amx_end() noexcept { _tile_release(); }

void amx_multiply(const AmxTile& tile) noexcept {
  const bool tall = tile.rows > kAmxHalf;
  const bool wide = tile.columns > kAmxHalf;
  if (tall) return wide ? multiply<true, true>(tile) : multiply<true, false>(tile);
  return wide ? multiply<false, true>(tile) : multiply<false, false>(tile);
}

}  // namespace starling::compute::cpu
