// Golomb codes of sorted indices (S. W. Golomb, "Run-length encodings", IEEE Transactions on
// Information Theory 12, 1966). Layout: delta/format.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/bytes.hpp"
#include "delta/delta.hpp"
#include "delta/format.hpp"

namespace starling::delta {

/// The number of the divisor that codes `count` rising indices below `n` in the fewest bits. It is
/// estimated from a sample of their gaps (the elements between two of them), among the divisors
/// near the best one for randomly placed indices.
[[nodiscard]] std::uint32_t golomb_parameter(std::span<const std::uint32_t> gaps, std::size_t count,
                                             std::size_t n);

/// Bytes of the starts of `count` indices.
[[nodiscard]] constexpr std::size_t starts_bytes(std::size_t count) noexcept {
  return count == 0 ? 0 : (count - 1) / kCodesPerRun * sizeof(std::uint32_t);
}

/// Appends starts and codes of `indices` (strictly rising) to `out`: for randomly placed indices
/// within 1% of their entropy at densities of 0.1% to 10%.
void golomb_encode(std::span<const std::uint32_t> indices, const Coding& coding, base::Bytes& out);

/// Whether starts rise and end within `bytes` bytes of codes.
[[nodiscard]] bool starts_are_sound(base::ByteView starts, std::size_t bytes) noexcept;

/// Reads out.size() indices below `n` from untrusted bytes that must hold them and nothing else.
/// False, with `out` in any state, otherwise. Work is bounded by out.size() and the bytes.
[[nodiscard]] bool golomb_decode(base::ByteView starts, base::ByteView codes, const Coding& coding,
                                 std::size_t n, std::span<std::uint32_t> out);

}  // namespace starling::delta
