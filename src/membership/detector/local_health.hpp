// How far this peer can trust its own impression that others are silent: Lifeguard's local health
// multiplier (Dadgar, Phillips, Currey, DSN 2018, section IV.A). A peer whose timers run late, who
// had to refute, or whose accusations were refuted, waits longer before it blames others.
#pragma once

#include <algorithm>

#include "membership/limits.hpp"

namespace starling::membership {

class LocalHealth {
 public:
  /// Something spoke against this peer's own condition.
  void worse() noexcept { score_ = std::min(score_ + 1, kHealthMax); }
  /// A heartbeat interval went by as it should.
  void better() noexcept { score_ = std::max(score_ - 1, 0); }
  /// The factor of timeouts: 1 to kHealthMax + 1.
  [[nodiscard]] int factor() const noexcept { return score_ + 1; }

 private:
  int score_ = 0;
};

}  // namespace starling::membership
