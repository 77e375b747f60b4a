// Rice codes of sorted indices (R. F. Rice, "Some practical universal noiseless coding
// techniques", JPL 79-22). Layout: wire/delta_format.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/bytes.hpp"

namespace starling::delta {

/// The parameter that codes `indices` (strictly rising, below `n`) in the fewest bits, of those
/// near the best one for randomly placed indices of this density.
[[nodiscard]] std::uint32_t rice_parameter(std::span<const std::uint32_t> indices, std::size_t n);

/// Appends the codes to `out`: for randomly placed indices within 2% of their entropy at densities
/// of 0.1% to 10%, but for a narrow band about 5.9% (2.2%), where two parameters are equally bad.
void rice_encode(std::span<const std::uint32_t> indices, std::uint32_t rice, base::Buffer& out);

/// Reads out.size() indices below `n` from untrusted bytes that must hold them and nothing else.
/// False, with `out` in any state, otherwise. Work is bounded by out.size() and the bytes.
[[nodiscard]] bool rice_decode(base::ByteView bytes, std::uint32_t rice, std::size_t n,
                               std::span<std::uint32_t> out);

}  // namespace starling::delta
