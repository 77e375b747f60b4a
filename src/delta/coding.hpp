// The parts of coding a delta that the processor and a GPU share; delta/format.hpp describes
// the whole.
#pragma once

#include <cstddef>
#include <cstdint>

namespace starling::delta {

/// How a delta's indices and values are coded.
struct Coding {
  std::uint32_t odd = 1;    ///< the divisor of the Golomb codes is odd << shift
  std::uint32_t shift = 0;  ///< 0 .. 28
  int bits = 4;             ///< a value: 1, 2, 3, 4 or 8
  std::size_t block = 128;  ///< values that share a scale

  static constexpr float kValueMax = 1e30F;  ///< scales bound values by this
};

inline constexpr std::size_t kCodesPerRun = 4096;  ///< codes of indices with one start

/// The number of elements between index number j and the one before it, or the vector's beginning.
[[nodiscard]] constexpr std::uint32_t gap_before(const std::uint32_t* indices,
                                                 std::size_t j) noexcept {
  return j == 0 ? indices[0] : indices[j] - indices[j - 1] - 1;
}

// The search for the scale of a block; delta/quantize.cpp gives the reasons.

/// Whether the number of levels calls for a search: one level takes the mean, and with 128 the
/// largest value hardly matters.
[[nodiscard]] constexpr bool searches_scale(int bits) noexcept { return bits > 1 && bits < 8; }

/// Scales to try, as parts of the one that just reaches the largest value: number 0 to this.
[[nodiscard]] constexpr int scale_tries(int bits) noexcept { return searches_scale(bits) ? 5 : 1; }

/// Heavy tails need clipping at the top (the clipped part stays in the difference for a later
/// delta).
[[nodiscard]] constexpr float scale_part(int number) noexcept {
  const float parts[] = {1.0F, 0.8F, 0.62F, 0.45F, 0.3F};
  return parts[number];
}

/// Rounds between scale and levels, from the best of the tries.
[[nodiscard]] constexpr int scale_rounds(int bits) noexcept { return searches_scale(bits) ? 2 : 0; }

/// The beginning of a remainder in the stream, its first bit lowest.
struct GolombPrefix {
  std::uint8_t code = 0;
  std::uint8_t size = 0;
};

/// A part below the odd factor, and the number of its bits.
struct GolombPart {
  std::uint8_t part = 0;
  std::uint8_t size = 0;
};

inline constexpr std::uint32_t kGolombPrefixMax = 3;  ///< bits of a prefix

// Truncated binary: the first 2^b - odd parts have b - 1 bits, the others b, with 2^b >= odd. All
// fit into a byte; `odd` is 1, 3, 5 or 7.

/// Bits of the longest prefix.
[[nodiscard]] constexpr std::uint32_t longest_prefix(std::uint32_t odd) noexcept {
  if (odd == 1) return 0;
  return odd == 3 ? 2 : 3;
}

/// The number of parts with one bit less.
[[nodiscard]] constexpr std::uint32_t shorter_prefixes(std::uint32_t odd) noexcept {
  return (1U << longest_prefix(odd)) - odd;
}

/// The prefix of a part below `odd`.
[[nodiscard]] constexpr GolombPrefix prefix_of(std::uint32_t odd, std::uint32_t part) noexcept {
  const std::uint32_t shorter = shorter_prefixes(odd);
  const std::uint32_t size = longest_prefix(odd) - (part < shorter ? 1U : 0U);
  const std::uint32_t word = part < shorter ? part : part + shorter;
  std::uint32_t code = 0;
  for (std::uint32_t i = 0; i < size; ++i) code |= (word >> (size - 1 - i) & 1U) << i;
  return {static_cast<std::uint8_t>(code), static_cast<std::uint8_t>(size)};
}

/// The part with which the next kGolombPrefixMax bits, the first one lowest, begin.
[[nodiscard]] constexpr GolombPart part_of(std::uint32_t odd, std::uint32_t bits) noexcept {
  const std::uint32_t longest = longest_prefix(odd);
  if (longest == 0) return {};
  std::uint32_t word = 0;
  for (std::uint32_t i = 0; i + 1 < longest; ++i) word = word << 1 | (bits >> i & 1U);
  const std::uint32_t shorter = shorter_prefixes(odd);
  if (word < shorter) {
    return {static_cast<std::uint8_t>(word), static_cast<std::uint8_t>(longest - 1)};
  }
  word = word << 1 | (bits >> (longest - 1) & 1U);
  return {static_cast<std::uint8_t>(word - shorter), static_cast<std::uint8_t>(longest)};
}

}  // namespace starling::delta
