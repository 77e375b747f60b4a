// bfloat16: the upper half of a float32, so 8 bits of precision over the same range.
#pragma once

#include <bit>
#include <cstdint>
#include <span>

namespace starling::base {

/// A value by its bits.
struct BFloat16 {
  std::uint16_t bits = 0;
};

[[nodiscard]] constexpr float widen(BFloat16 value) noexcept {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value.bits) << 16);
}

inline constexpr std::uint16_t kMinusZero = 0x8000;  ///< the bits of a BFloat16

/// out[i] = from[i], exactly. Both have the same size.
void widen(std::span<const BFloat16> from, std::span<float> out) noexcept;

/// The upper half of `value` with `more`, below 2^16, added to its lower half: 2^15 rounds to the
/// nearer neighbour, and ties to the larger one. Zeros come out without a sign. The value is finite
/// and not beyond 3e38.
[[nodiscard]] constexpr BFloat16 narrow(float value, std::uint32_t more) noexcept {
  const auto bits = static_cast<std::uint16_t>((std::bit_cast<std::uint32_t>(value) + more) >> 16);
  return {bits == kMinusZero ? std::uint16_t{0} : bits};
}

/// The neighbour that is nearer to `value`; ties go to the one whose last bit is 0, as in IEEE 754.
/// The value is finite and not beyond 3e38.
[[nodiscard]] constexpr BFloat16 narrow_to_even(float value) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return {static_cast<std::uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16)};
}

inline constexpr std::uint32_t kWeyl = 0x9e3779b9U;  ///< between the draws of two elements

/// The number that narrow() adds to round element `index` of a vector stochastically: to one of its
/// two neighbours, the likelier the nearer it is (M. Croci et al., "Stochastic rounding", 2022). So
/// sums of small parts are not lost, and values that a bfloat16 can represent stay as they are. The
/// same on every machine. The draws are a Weyl sequence over the elements that starts at `seed`:
/// even over elements, and over repeated draws of one element as random as the seeds, as its mean
/// requires.
[[nodiscard]] constexpr std::uint32_t draw(std::uint32_t seed, std::uint32_t index) noexcept {
  return (index * kWeyl + seed) >> 16;
}

/// out[i] is the nearer neighbour of from[i].
void narrow(std::span<const float> from, std::span<BFloat16> out) noexcept;

}  // namespace starling::base
