// Which elements a delta carries: the largest magnitudes, exactly as many as asked for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/result.hpp"
#include "delta/source.hpp"

namespace starling::delta {

/// Elements of a vector: `indices` strictly rising, values[j] belongs to indices[j].
struct Elements {
  std::vector<std::uint32_t> indices;
  std::vector<float> values;

  [[nodiscard]] std::size_t size() const noexcept { return indices.size(); }
  [[nodiscard]] compute::ElementsView view() const noexcept { return {indices, values}; }
};

/// Memory that select() uses again and again; grows to a few times the count.
struct SelectScratch {
  FoundElements found;
  std::vector<std::uint32_t> places;
  std::vector<float> values;
  std::vector<std::uint32_t> keys;
  std::vector<std::uint32_t> histogram;
};

/// The `count` elements of largest magnitude, into `chosen`. Of equal magnitudes the lower index
/// goes first; exact zeros are never chosen, so fewer come where fewer are not zero. Elements that
/// are not finite count as the largest. count >= 1, size < 2^31. Deterministic.
///
/// Cost: one pass over the source where a sample of it predicts the threshold well (always, but for
/// adversarial or heavily tied input), four where it does not. Errors: the source's.
[[nodiscard]] base::Status select_largest(Source& source, std::size_t count, SelectScratch& scratch,
                                          Elements& chosen);

}  // namespace starling::delta
