// Which elements a delta carries: the largest magnitudes, exactly as many as asked for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "compute/delta.hpp"

namespace starling::delta {

/// Memory that select_largest() uses again and again.
struct SelectScratch {
  std::vector<std::uint32_t> places;
  std::vector<float> values;
  std::vector<std::uint32_t> histogram;
};

/// What select_largest() has room for of the elements that it finds.
[[nodiscard]] std::size_t room_for(std::size_t count, std::size_t n);

/// Lets the source choose the `count` elements of largest magnitude, as its choose() says. count >=
/// 1, size < 2^31. Deterministic.
///
/// Cost: one pass over the source where a sample of it predicts the threshold well (always, but for
/// adversarial or heavily tied input), four where it does not. Errors: the source's.
[[nodiscard]] base::Result<compute::Choice> select_largest(compute::DeltaSource& source,
                                                           std::size_t count, float limit,
                                                           SelectScratch& scratch);

}  // namespace starling::delta
