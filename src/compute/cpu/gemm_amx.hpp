// Products of matrices rounded to bfloat16, by the tiles (AMX) of newer processors: the innermost
// loops, in a file of their own with flags of their own.
#pragma once

#include <cstddef>
#include <cstdint>

namespace starling::compute::cpu {

/// Lines (rows of the left matrix, columns of the right one) in a packed panel; a tile holds half.
inline constexpr std::size_t kAmxLines = 32;
inline constexpr std::size_t kAmxHalf = kAmxLines / 2;
/// Steps of depth in a tile. A panel has whole ones, filled up with zeros.
inline constexpr std::size_t kAmxSteps = 32;

/// A panel of packed lines: for each kAmxSteps of depth the tiles of both halves, each of 16 rows
/// of 16 pairs of bfloat16. Of the left matrix a row is a line; of the right one a row is a pair of
/// steps.
struct AmxPanel {
  const float* from;  ///< the panel's first line and step
  std::size_t stride;
  bool lines;  ///< a line's steps lie side by side; else a step's lines do
  bool right;
  std::size_t count;  ///< lines; those up to the next half are zero
  std::size_t depth;
};
void amx_pack(const AmxPanel& panel, std::uint32_t* to) noexcept;

/// Sets up the calling thread's tiles, or gives them back, as must be done before other code of
/// the thread uses tiles.
void amx_begin() noexcept;
void amx_end() noexcept;

/// out (`rows` x `columns`, each 16 or 32, rows `stride` apart) = start + the product of two packed
/// panels of `depth` steps. The start is `out` itself if `add`, else `bias` in each row, else zero.
struct AmxTile {
  const std::uint32_t* left;
  const std::uint32_t* right;
  std::size_t rows, columns, depth;
  float* out;
  std::size_t stride;
  bool add;
  const float* bias;
};
void amx_multiply(const AmxTile& tile) noexcept;

}  // namespace starling::compute::cpu
