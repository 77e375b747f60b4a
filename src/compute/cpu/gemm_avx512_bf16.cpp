// Compiled with the flags of AVX-512 with BF16. As in gemm_kernel.cpp, no standard header with
// inline functions may be included here.
#include <immintrin.h>

#include "compute/cpu/gemm_bf16_kernel.hpp"

namespace starling::compute::cpu {

namespace {

// Of 32 registers 24 hold sums, and two hold columns. With 14 rows, large products took 2 % longer.
constexpr std::size_t kRows = 12;
constexpr std::size_t kVectors = 2;

/// The first `count` of 16, none of a negative number.
__mmask16 first(std::ptrdiff_t count) {
  return count >= 16 ? 0xffff : count <= 0 ? 0 : static_cast<__mmask16>((1U << count) - 1);
}

/// 32 values in one vector, those of `low` first.
__m512i rounded(__m512 low, __m512 high) {
  return reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(high, low));
}

/// 16 lines of 32 steps each: one vector per line, its steps in pairs.
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

/// The same transposed: one vector per pair of steps.
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

/// Transposes 16 x 16 integers: pairs, fours, then whole quarters of vectors.
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

/// A tile of kTall rows; the last of its kWide vectors has `last` columns.
template <std::size_t kTall, std::size_t kWide>
void multiply(const Bf16Tile& tile, __mmask16 last) {
  __m512 sums[kTall][kWide];
  for (std::size_t i = 0; i < kTall; ++i) {
    for (std::size_t j = 0; j < kWide; ++j) sums[i][j] = _mm512_setzero_ps();
    __builtin_prefetch(tile.out + i * tile.stride + (kWide - 1) * 16, 1);
  }
  const std::uint32_t* left = tile.left;
  const std::uint32_t* right = tile.right;
  for (std::size_t pairs = (tile.depth + 1) / 2; pairs > 0; left += kBf16Block) {
    const std::size_t some = pairs < kBf16Lines ? pairs : kBf16Lines;
    for (std::size_t k = 0; k < some; ++k) {
      __m512bh columns[kWide];
      for (std::size_t j = 0; j < kWide; ++j) {
        columns[j] =
            reinterpret_cast<__m512bh>(_mm512_load_si512(right + k * kBf16Lines + j * kBf16Block));
      }
      for (std::size_t i = 0; i < kTall; ++i) {
        const auto row = reinterpret_cast<__m512bh>(
            _mm512_set1_epi32(static_cast<int>(left[i * kBf16Lines + k])));
        for (std::size_t j = 0; j < kWide; ++j) {
          sums[i][j] = _mm512_dpbf16_ps(sums[i][j], row, columns[j]);
        }
      }
    }
    pairs -= some;
    right += kVectors * kBf16Block;
  }
  const float* const start = tile.add ? tile.out : tile.bias;
  const std::size_t below = tile.add ? tile.stride : 0;  // a bias starts every row
  for (std::size_t i = 0; i < kTall; ++i) {
    for (std::size_t j = 0; j < kWide; ++j) {
      const __mmask16 mask = j + 1 < kWide ? 0xffff : last;
      if (start != nullptr) {
        sums[i][j] =
            _mm512_add_ps(sums[i][j], _mm512_maskz_loadu_ps(mask, start + i * below + j * 16));
      }
      _mm512_mask_storeu_ps(tile.out + i * tile.stride + j * 16, mask, sums[i][j]);
    }
  }
}

template <std::size_t kTall, std::size_t kWide>
void choose(const Bf16Tile& tile) {
  if constexpr (kTall > 1) {
    if (tile.rows < kTall) return choose<kTall - 1, kWide>(tile);
  }
  if constexpr (kWide > 1) {
    if (tile.columns <= (kWide - 1) * 16) return choose<kTall, kWide - 1>(tile);
  }
  multiply<kTall, kWide>(tile, first(static_cast<std::ptrdiff_t>(tile.columns - (kWide - 1) * 16)));
}

}  // namespace

void bf16_pack(const Bf16Panel& panel, std::uint32_t* to) noexcept {
  const auto depth = static_cast<std::ptrdiff_t>(panel.depth);
  const auto count = static_cast<std::ptrdiff_t>(panel.count);
  const auto stride = static_cast<std::ptrdiff_t>(panel.stride);
  constexpr auto kLines = static_cast<std::ptrdiff_t>(kBf16Lines);
  for (std::ptrdiff_t k = 0; k < depth; k += kBf16Steps, to += panel.width * kBf16Steps / 2) {
    std::uint32_t* block_to = to;
    for (std::ptrdiff_t line = 0; line < count; line += kLines, block_to += kBf16Block) {
      __m512i block[16];
      if (panel.lines) {
        load_lines(panel.from + line * stride + k, panel.stride, count - line, depth - k, block);
      } else {
        load_steps(panel.from + k * stride + line, panel.stride, count - line, depth - k, block);
      }
      if (panel.lines == panel.right) turn(block);
      for (std::size_t i = 0; i < 16; ++i) _mm512_store_si512(block_to + i * 16, block[i]);
    }
  }
}

const Bf16Kernel kBf16Avx512{.name = "avx512_core_bf16",
                             .suits_every_convolution = false,
                             .rows = kRows,
                             .columns = kVectors * kBf16Lines,
                             .multiply = choose<kRows, kVectors>,
                             .begin = nullptr,
                             .end = nullptr};

}  // namespace starling::compute::cpu
