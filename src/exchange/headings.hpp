// Whether a neighbour goes the same way: honest peers all go downhill, and a replica that is kept
// back, or goes uphill, moves against them.
#pragma once

#include <cstddef>
#include <vector>

#include "delta/elements.hpp"

namespace starling::exchange {

/// What both ends of a link have told lately, as sketches: sums of elements in few places, with
/// random signs (count sketch: M. Charikar, K. Chen, M. Farach-Colton, "Finding Frequent Items in
/// Data Streams", 2002). A product of two sketches is that of what they sketch, within its norms
/// times 1 / sqrt(kPlaces).
class Headings {
 public:
  static constexpr std::size_t kPlaces = 1024;
  /// Exchanges that it takes to tell.
  static constexpr int kExchangesMin = 8;

  /// The deltas of an exchange.
  void add(const delta::Elements& own, const delta::Elements& their);
  /// Of the angle between the two, -1 to 1; 0: not known yet.
  [[nodiscard]] double cosine() const;

 private:
  using Sketch = std::vector<float>;  ///< kPlaces, or none yet

  static void add(const delta::Elements& delta, Sketch& sketch);

  Sketch own_{};
  Sketch their_{};
  int exchanges_ = 0;  ///< at most kExchangesMin
};

}  // namespace starling::exchange
