// The bytes of a delta: the part of its replica's difference to its mirror that an end of a link
// sends.
//
// All numbers little-endian, floats as IEEE 754 binary32. A payload is
//
//   offset size  field
//   0      1     version << 4              version kVersion
//                | kind << 3 | bits - 1    kind: Kind; bits a value: 1, 2, 3, 4 or 8 (dense: 8)
//   1      1     golomb                    the divisor's number (dense: 0)
//   2      2     block                     consecutive carried values that share a scale, >= 1
//   4      4     n                         elements of the replica
//   8      4     count                     elements carried (dense: n)
//   12     4*S   starts                    sparse only, see below
//   ...    I     indices                   sparse only, see below
//   ...    4*B   scales                    float32, B = ceil(count / block)
//   ...    V     values                    ceil(count * bits / 8) bytes
//
// I has no field: it is the rest of the payload after the other parts.
//
// Indices are strictly rising. Each is coded as gap = index - previous - 1 (the first: the index
// itself) by a Golomb code: gap / divisor zero bits, a one bit, then the remainder. The divisor is
// odd * 2^j with odd = 1, 3, 5 or 7 (golomb = 4j + odd / 2), j <= 28. The remainder is a prefix for
// remainder >> j, which is below odd, then its low j bits. Prefixes, their first bit first:
//   1: none   3: 0 10 11   5: 00 01 10 110 111   7: 00 010 011 100 101 110 111
// Bits fill each byte from the lowest; those left over in the last byte are zero.
//
// So that many threads can read them at once, codes form runs of kCodesPerRun. `starts` has the bit
// among the indices at which each run except the first begins: S = max(ceil(count / kCodesPerRun) -
// 1, 0).
//
// A sparse value is a code of `bits` bits: the highest is the sign (1: negative), the others are
// level - 1; the value is sign * level * scale with level 1 .. 2^(bits-1). There is no level zero:
// an element that is carried changes. Codes fill bytes from the lowest bits; left-over bits are 0.
// A dense value is a signed byte, level -127 .. 127.
//
// Scales are > 0 (dense: >= 0) and finite, and level * scale never exceeds kMagnitudeMax.
#pragma once

#include <cstddef>
#include <cstdint>

namespace starling::delta::format {

enum class Kind : std::uint8_t { sparse = 0, dense = 1 };

inline constexpr std::uint8_t kVersion = 3;
inline constexpr std::size_t kHeaderBytes = 12;
inline constexpr std::size_t kKindAt = 0;
inline constexpr std::size_t kGolombAt = 1;
inline constexpr std::size_t kBlockAt = 2;
inline constexpr std::size_t kElementsAt = 4;
inline constexpr std::size_t kCountAt = 8;

inline constexpr std::uint32_t kGolombMax = 4 * 28 + 3;
inline constexpr std::uint32_t kBlockMax = 65535;
inline constexpr std::uint32_t kElementsMax = 1U << 30;  ///< elements of a replica
inline constexpr std::uint32_t kDenseBlock = 256;
inline constexpr int kDenseLevelMax = 127;
/// Bounds all values and all elements of mirrors, so that their sums and differences stay finite.
inline constexpr float kMagnitudeMax = 1e30F;

/// Whether values may have this number of bits.
[[nodiscard]] constexpr bool is_bits(int bits) noexcept {
  return (bits >= 1 && bits <= 4) || bits == 8;
}

/// The odd factor and the power of two of the divisor `golomb` <= kGolombMax.
[[nodiscard]] constexpr std::uint32_t golomb_odd(std::uint32_t golomb) noexcept {
  return golomb % 4 * 2 + 1;
}
[[nodiscard]] constexpr std::uint32_t golomb_shift(std::uint32_t golomb) noexcept {
  return golomb / 4;
}
[[nodiscard]] constexpr std::uint32_t golomb_divisor(std::uint32_t golomb) noexcept {
  return golomb_odd(golomb) << golomb_shift(golomb);
}

/// Levels of a sparse value with `bits` bits: 1 .. level_max(bits).
[[nodiscard]] constexpr int level_max(int bits) noexcept { return 1 << (bits - 1); }

}  // namespace starling::delta::format
