// bfloat16: the upper half of a float32, so 8 bits of precision over the same range.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

namespace starling::base {

/// A value by its bits.
struct BFloat16 {
  std::uint16_t bits = 0;
};

[[nodiscard]] inline float widen(BFloat16 value) noexcept {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value.bits) << 16);
}

/// out[i] = from[i], exactly; as many.
void widen(std::span<const BFloat16> from, std::span<float> out) noexcept;

/// out[i] is one of the two neighbours of from[i], each the likelier the nearer it is (M. Croci et
/// al., "Stochastic rounding", 2022): what is added in small parts is not lost. The draw for
/// from[i] comes from `seed`, which should be random, and `first` + i, and is the same on every
/// machine; what a bfloat16 can say stays as it is. Zeros come out without a sign. The values are
/// finite and not beyond 3e38.
void narrow(std::span<const float> from, std::uint32_t seed, std::size_t first,
            std::span<BFloat16> out) noexcept;

/// out[i] is the neighbour that is nearer to from[i], of two as near the larger one; otherwise as
/// above.
void narrow(std::span<const float> from, std::span<BFloat16> out) noexcept;

}  // namespace starling::base
