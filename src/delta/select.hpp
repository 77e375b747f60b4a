// Which elements a delta carries: the largest magnitudes, exactly as many as asked for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "delta/delta.hpp"

namespace starling::delta {

/// What select_largest() has room for of the elements that it finds.
[[nodiscard]] std::size_t room_for(std::size_t count, std::size_t n);

/// Lets the source choose the `count` elements of largest magnitude, as its choose() says, which
/// gets the rest, too. count >= 1, size < 2^31. Deterministic.
///
/// Cost: one pass over the source where a sample of it predicts the threshold well (always, but for
/// adversarial or heavily tied input), a few more where it does not. Errors: the source's.
[[nodiscard]] base::Result<Choice> select_largest(DeltaSource& source, std::size_t count,
                                                  float limit, std::span<std::uint32_t> gaps);

}  // namespace starling::delta
