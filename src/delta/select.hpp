// Selects the elements that a delta carries: the largest magnitudes, exactly as many as requested.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "delta/delta.hpp"

namespace starling::delta {

/// The number of found elements for which select_largest() has room.
[[nodiscard]] std::size_t room_for(std::size_t count, std::size_t n);

/// Lets the source choose the `count` elements of largest magnitude by its choose(), with the other
/// arguments passed on. count >= 1, size < 2^31. Deterministic.
///
/// Cost: one pass over the source if a sample of it predicts the threshold well (always, except for
/// adversarial or heavily tied input), otherwise a few more. Errors: the source's.
[[nodiscard]] base::Result<Choice> select_largest(DeltaSource& source, std::size_t count,
                                                  float limit, std::span<std::uint32_t> gaps);

}  // namespace starling::delta
