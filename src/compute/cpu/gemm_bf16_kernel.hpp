// The innermost loops of products of matrices rounded to bfloat16, each kind in its own file with
// its own flags.
#pragma once

#include <cstddef>
#include <cstdint>

namespace starling::compute::cpu {

/// A panel of packed lines (rows of the left matrix, columns of the right one) consists of blocks
/// of kBf16Lines lines by kBf16Steps of depth, filled up with zeros: 16 rows of 16 pairs of
/// bfloat16. For the left matrix, a row is a line; for the right one, a pair of steps. A panel of
/// 32 lines has two blocks for each kBf16Steps, side by side.
inline constexpr std::size_t kBf16Lines = 16;
inline constexpr std::size_t kBf16Steps = 32;
inline constexpr std::size_t kBf16Block = kBf16Lines * kBf16Steps / 2;  ///< in pairs

/// The source of a panel.
struct Bf16Panel {
  const float* from;  ///< the panel's first line and step
  std::size_t stride;
  bool lines;  ///< a line's steps lie side by side; otherwise a step's lines do
  bool right;
  std::size_t width;  ///< of the panel in lines, a multiple of kBf16Lines
  std::size_t count;  ///< lines; those up to the block's end are zero, blocks of none unwritten
  std::size_t depth;
};

/// Packs, rounding to the nearest. Needs AVX-512 with BW and BF16.
void bf16_pack(const Bf16Panel& panel, std::uint32_t* to) noexcept;

/// out (`rows` x `columns`, rows `stride` apart) = start + the product of two packed panels of
/// `depth` steps. The start is `out` itself if `add`, otherwise `bias` in each row, or zero.
struct Bf16Tile {
  const std::uint32_t* left;
  const std::uint32_t* right;
  std::size_t rows, columns, depth;
  float* out;
  std::size_t stride;
  bool add;
  const float* bias;
};

/// One way to multiply packed panels.
struct Bf16Kernel {
  const char* name;              ///< of its instructions, as in oneDNN's implementation names
  bool suits_every_convolution;  ///< all of oneDNN's with these instructions gain from them
  std::size_t rows;              ///< of a tile, 32 at most
  std::size_t columns;           ///< of a tile, 32 at most

  /// Any number of rows and columns from 1 to those of a tile.
  void (*multiply)(const Bf16Tile& tile);

  /// Sets up the calling thread, or undoes that, which must be done before other code uses the same
  /// registers. Null if there is nothing to do.
  void (*begin)();
  void (*end)();
};

extern const Bf16Kernel kBf16Amx;     // needs AMX for bfloat16, and the needs of bf16_pack
extern const Bf16Kernel kBf16Avx512;  // has the needs of bf16_pack

}  // namespace starling::compute::cpu
