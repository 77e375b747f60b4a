// Golomb codes of sorted indices (S. W. Golomb, "Run-length encodings", IEEE Transactions on
// Information Theory 12, 1966). Layout: wire/delta_format.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/bytes.hpp"

namespace starling::delta {

/// The divisor's number that codes `indices` (strictly rising, below `n`) in the fewest bits, as
/// far as a sample of their gaps tells, of those near the best one for randomly placed indices.
[[nodiscard]] std::uint32_t golomb_parameter(std::span<const std::uint32_t> indices, std::size_t n);

/// Appends the codes to `out`: for randomly placed indices within 1% of their entropy at
/// densities of 0.1% to 10%.
void golomb_encode(std::span<const std::uint32_t> indices, std::uint32_t parameter,
                   base::Buffer& out);

/// Reads out.size() indices below `n` from untrusted bytes that must hold them and nothing else.
/// False, with `out` in any state, otherwise. Work is bounded by out.size() and the bytes.
[[nodiscard]] bool golomb_decode(base::ByteView bytes, std::uint32_t parameter, std::size_t n,
                                 std::span<std::uint32_t> out);

}  // namespace starling::delta
