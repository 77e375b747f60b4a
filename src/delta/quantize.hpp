// Values as sign and level times a scale per block. Layout: delta/format.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/bytes.hpp"
#include "base/integer.hpp"

namespace starling::delta {

/// The scale with a small squared error for values of which none is zero or beyond kMagnitudeMax:
/// never a larger one (but for float rounding) than that of the scale that just reaches the largest
/// value, and always such that the block shrinks when what is coded is taken from it. The same on
/// all machines.
[[nodiscard]] float sparse_scale(std::span<const float> values, int bits);

/// Packs the values' codes into `out` (codes_bytes(values.size(), bits) bytes); `scales` has one
/// place for each block and is filled, `codes` is scratch.
void pack_values(std::span<const float> values, int bits, std::size_t block,
                 std::vector<std::uint8_t>& codes, std::span<float> scales,
                 std::span<std::byte> out);

/// The values of checked codes, in single float32 operations: float(level) * scale.
void unpack_values(base::ByteView codes, int bits, std::size_t block, base::ByteView scales,
                   std::span<float> out);

/// The largest magnitude, as integer bits, whose maximum vectorises where that of floats does not;
/// NaN and infinity come out above all numbers. 0 where there are none.
[[nodiscard]] std::uint32_t largest_magnitude(const float* values, std::size_t n);

/// Bytes of `count` codes.
[[nodiscard]] constexpr std::size_t codes_bytes(std::size_t count, int bits) noexcept {
  return base::ceil_div(count * static_cast<std::size_t>(bits), 8);
}

/// Blocks that `count` values make.
[[nodiscard]] constexpr std::size_t blocks_of(std::size_t count, std::size_t block) noexcept {
  return base::ceil_div(count, block);
}

}  // namespace starling::delta
