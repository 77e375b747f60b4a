// Pauses of random length, so that peers that begin at one moment do not go on in step.
#pragma once

#include "base/rng.hpp"
#include "base/time.hpp"

namespace starling::base {

/// Half of the pause to all of it.
[[nodiscard]] inline Duration jittered(Duration pause, Rng& rng) {
  return from_seconds(seconds(pause) * (0.5 + 0.5 * rng.uniform()));
}

}  // namespace starling::base
