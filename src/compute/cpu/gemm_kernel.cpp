// Compiled three times, with the flags of each processor, -ffp-contract=fast and its name in
// STARLING_GEMM_KERNEL. No standard header with inline functions may be included here: the linker
// could keep this file's copy, and an older processor could not run it.
#include "compute/cpu/gemm_kernel.hpp"

namespace starling::compute::cpu {

namespace {

#if defined(__AVX512F__)
constexpr std::size_t kWidth = 16;  // floats in a register; of 32 registers 24 hold sums
constexpr std::size_t kRows = 12;
#elif defined(__AVX2__)
constexpr std::size_t kWidth = 8;  // of 16 registers 12 hold sums
constexpr std::size_t kRows = 6;
#else
constexpr std::size_t kWidth = 4;
constexpr std::size_t kRows = 6;
#endif
constexpr std::size_t kVectors = 2;  // in a row of a tile
constexpr std::size_t kColumns = kVectors * kWidth;

using Vector __attribute__((vector_size(kWidth * sizeof(float)))) = float;
// A vector in memory, at any address.
using Loose __attribute__((vector_size(kWidth * sizeof(float)), aligned(4), may_alias)) = float;

inline Vector load(const float* from) { return *reinterpret_cast<const Loose*>(from); }
inline void store(float* to, Vector value) { *reinterpret_cast<Loose*>(to) = value; }

// Element (i, k) of the left matrix is left[i * row + k * step]; a null `start` means zero.
[[gnu::always_inline]] inline void tile_of(std::size_t depth, const float* left, std::size_t row,
                                           std::size_t step, const float* right, float* out,
                                           std::size_t stride, const float* start,
                                           std::size_t start_stride) {
  Vector sums[kRows][kVectors];
  for (std::size_t i = 0; i < kRows; ++i) {
    for (std::size_t j = 0; j < kVectors; ++j) sums[i][j] = Vector{};
  }
  for (std::size_t i = 0; i < kRows; ++i) __builtin_prefetch(out + i * stride + kColumns - 1, 1);
  for (std::size_t k = 0; k < depth; ++k, left += step, right += kColumns) {
    Vector columns[kVectors];
    for (std::size_t j = 0; j < kVectors; ++j) columns[j] = load(right + j * kWidth);
    for (std::size_t i = 0; i < kRows; ++i) {
      for (std::size_t j = 0; j < kVectors; ++j) sums[i][j] += left[i * row] * columns[j];
    }
  }
  for (std::size_t i = 0; i < kRows; ++i) {
    for (std::size_t j = 0; j < kVectors; ++j) {
      const Vector before =
          start != nullptr ? load(start + i * start_stride + j * kWidth) : Vector{};
      store(out + i * stride + j * kWidth, before + sums[i][j]);
    }
  }
}

void tile(std::size_t depth, const float* left, const float* right, float* out, std::size_t stride,
          bool add, const float* bias) {
  tile_of(depth, left, 1, kRows, right, out, stride, add ? out : bias, add ? stride : 0);
}

void tile_columns(std::size_t depth, const float* left, std::size_t step, const float* right,
                  float* out, std::size_t stride, bool add) {
  tile_of(depth, left, 1, step, right, out, stride, add ? out : nullptr, stride);
}

void tile_rows(std::size_t depth, const float* left, std::size_t step, const float* right,
               float* out, std::size_t stride, bool add) {
  tile_of(depth, left, step, 1, right, out, stride, add ? out : nullptr, stride);
}

// Lines are transposed in blocks of four by four, with shuffles that every processor has.
using Four __attribute__((vector_size(16))) = float;
using LooseFour __attribute__((vector_size(16), aligned(4), may_alias)) = float;

inline Four load_four(const float* from) { return *reinterpret_cast<const LooseFour*>(from); }
inline void store_four(float* to, Four value) { *reinterpret_cast<LooseFour*>(to) = value; }

inline void turn(Four (&block)[4]) {
  const Four low = __builtin_shufflevector(block[0], block[1], 0, 4, 1, 5);
  const Four high = __builtin_shufflevector(block[0], block[1], 2, 6, 3, 7);
  const Four low_below = __builtin_shufflevector(block[2], block[3], 0, 4, 1, 5);
  const Four high_below = __builtin_shufflevector(block[2], block[3], 2, 6, 3, 7);
  block[0] = __builtin_shufflevector(low, low_below, 0, 1, 4, 5);
  block[1] = __builtin_shufflevector(low, low_below, 2, 3, 6, 7);
  block[2] = __builtin_shufflevector(high, high_below, 0, 1, 4, 5);
  block[3] = __builtin_shufflevector(high, high_below, 2, 3, 6, 7);
}

template <std::size_t kLines>
void pack(std::size_t depth, std::size_t count, const float* lines, std::size_t stride,
          float* panel) {
  constexpr std::size_t kFours = (kLines + 3) / 4;
  std::size_t k = 0;
  for (; count == kLines && k + 4 <= depth; k += 4) {
    Four blocks[kFours][4];
    for (std::size_t i = 0; i < kFours * 4; ++i) {  // a line twice if there are no more
      blocks[i / 4][i % 4] = load_four(lines + (i < kLines ? i : 0) * stride + k);
    }
    for (std::size_t four = 0; four < kFours; ++four) turn(blocks[four]);
    // In this order: if lines are not a multiple of four, a store spills over into the next one.
    for (std::size_t step = 0; step < 4; ++step) {
      for (std::size_t four = 0; four < kFours; ++four) {
        store_four(panel + (k + step) * kLines + four * 4, blocks[four][step]);
      }
    }
  }
  for (; k < depth; ++k) {
    for (std::size_t i = 0; i < kLines; ++i) {
      panel[k * kLines + i] = i < count ? lines[i * stride + k] : 0.0F;
    }
  }
}

}  // namespace

extern const GemmKernel STARLING_GEMM_KERNEL;
const GemmKernel STARLING_GEMM_KERNEL{kRows,     kColumns,    tile,          tile_columns,
                                      tile_rows, pack<kRows>, pack<kColumns>};

}  // namespace starling::compute::cpu
