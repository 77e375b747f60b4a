// The pass over memory of an encode: finds the elements of a difference that may be sent, and may
// hold all of it back.
#pragma once

#include <cstddef>
#include <cstdint>

#include "delta/difference.hpp"

namespace starling::delta {

/// Appends the elements begin .. end - 1 of the difference whose magnitude has bits of at least
/// `key_min` (> 0) to both arrays, from place `count` on; the arrays have room for all of them and
/// one more. Returns the new count. `end` - `begin` may have any value.
[[nodiscard]] std::size_t scan(const Difference& difference, std::size_t begin, std::size_t end,
                               std::uint32_t key_min, std::uint32_t* indices, float* values,
                               std::size_t count);

/// The same for the difference of base + offset to `mirror`, as it was before these elements were
/// held back.
[[nodiscard]] std::size_t scan_and_hold_back(const HoldBack& hold, const MirrorView& mirror,
                                             std::size_t begin, std::size_t end,
                                             std::uint32_t key_min, std::uint32_t* indices,
                                             float* values, std::size_t count);

}  // namespace starling::delta
