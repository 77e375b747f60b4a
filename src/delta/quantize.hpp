// Values as sign and level times a scale per block. Layout: delta/format.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/bytes.hpp"
#include "base/integer.hpp"

namespace starling::delta {

/// A scale with a small squared error, for values that are neither zero nor beyond kMagnitudeMax.
/// The error is never larger (except for float rounding) than that of the scale that just reaches
/// the largest value, and subtracting the coded values always shrinks the block. The same on all
/// machines.
[[nodiscard]] float sparse_scale(std::span<const float> values, int bits);

/// Packs the values' codes into `out` (codes_bytes(values.size(), bits) bytes); `scales` has one
/// place for each block and is filled, `codes` is scratch.
void pack_values(std::span<const float> values, int bits, std::size_t block,
                 std::vector<std::uint8_t>& codes, std::span<float> scales,
                 std::span<std::byte> out);

/// The values of checked codes, in single float32 operations: float(level) * scale.
void unpack_values(base::ByteView codes, int bits, std::size_t block, base::ByteView scales,
                   std::span<float> out);

/// The largest magnitude as integer bits, since a maximum of integers vectorises and one of floats
/// does not. NaN and infinity come out above all numbers. 0 if there are no values.
[[nodiscard]] std::uint32_t largest_magnitude(const float* values, std::size_t n);

/// Bytes of `count` codes.
[[nodiscard]] constexpr std::size_t codes_bytes(std::size_t count, int bits) noexcept {
  return base::ceil_div(count * static_cast<std::size_t>(bits), 8);
}

/// The number of blocks of `count` values.
[[nodiscard]] constexpr std::size_t blocks_of(std::size_t count, std::size_t block) noexcept {
  return base::ceil_div(count, block);
}

}  // namespace starling::delta
