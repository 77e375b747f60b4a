// How often a peer that misses neighbours dials members, and how seldom it asks urgently: ever more
// rarely while there is no room. In a swarm that is full all members would be asked in turn, as
// fast as they answer. Each urgent request costs another peer a neighbour, and where degrees differ
// there may be no room for all.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/bound.hpp"
#include "base/rng.hpp"
#include "base/time.hpp"
#include "membership/limits.hpp"
#include "membership/overlay/dial_history.hpp"

namespace starling::membership {

class SeekPace {
 public:
  /// A member rejected this peer.
  void rejected(base::Rng& rng, base::Time now) {
    ++rejections_;
    if (now < dial_after_) return;
    dial_pause_ = std::clamp(2 * dial_pause_, kBackoffMin, kSeekPauseMax);
    dial_after_ = now + jittered(dial_pause_, rng);
  }
  /// It has a neighbour more: there is room again, it seems.
  void accepted() noexcept {
    rejections_ = 0;
    dial_pause_ /= 2;
  }

  /// Earliest time to dial members again.
  [[nodiscard]] base::Time dial_after() const noexcept { return dial_after_; }
  /// Whether it was rejected so often in a row that it may ask urgently. `full`: who would give a
  /// neighbour away for it.
  [[nodiscard]] bool has_tried(bool full) const noexcept {
    return rejections_ >= (full ? kRejectionsBeforeFull : kRejectionsBeforeUrgent);
  }
  /// Whether it is time for an urgent request, which is then made. `lonely`: it has no neighbours;
  /// such a peer waits least.
  [[nodiscard]] bool take_urgent(bool lonely, base::Time now) {
    const base::Duration most = lonely ? kSeekPauseMax : kRevivalMax;
    if (now - urgent_at_ < std::min(urgent_pause_, most)) return false;
    const bool rested = now - urgent_at_ >= urgent_pause_ + kRevivalMax;
    urgent_pause_ = rested ? kBackoffMin : std::clamp(2 * urgent_pause_, kBackoffMin, most);
    urgent_at_ = now;
    rejections_ = 0;
    return true;
  }

  void add_timers(base::Time now, base::Bounds& out) const {
    out.add_timer("the next search for neighbours", dial_after_, now, kSeekPauseMax);
    out.add_timer("the next urgent request", urgent_at_ + urgent_pause_, now, kRevivalMax);
  }

 private:
  std::uint32_t rejections_ = 0;  ///< in a row
  base::Time dial_after_{};
  base::Duration dial_pause_{0};
  base::Time urgent_at_{};  ///< of the last urgent request
  base::Duration urgent_pause_{0};
};

}  // namespace starling::membership
