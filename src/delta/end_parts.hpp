// How the two ends of a link part what an exchange does between them.
#pragma once

namespace starling::delta {

/// By the weights p of the ends. The other end has the same values under swapped names.
struct EndParts {
  // Of the common step, that moves each end: min(1, p of the other / p of this one).
  float own = 1;
  float their = 1;
  // Of each end's mirror, in twice what both agree on: 2 p of this one / the sum of both.
  float own_share = 1;
  float their_share = 1;

  friend bool operator==(const EndParts&, const EndParts&) = default;
};

}  // namespace starling::delta
