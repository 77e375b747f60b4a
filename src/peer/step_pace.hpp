// How fast a peer may step.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "base/time.hpp"

namespace starling::peer {

/// A limit of steps a second.
class StepPace {
 public:
  /// `interval`: between the begins of two steps on `whole` samples; zero: no limit.
  StepPace(base::Duration interval, std::uint32_t whole) : interval_(interval), whole_(whole) {}

  /// Whether a step on `batch` samples may go now; if so, it is counted. A smaller batch is less
  /// work. A late timer is made up for by one step, not by a burst after a pause.
  [[nodiscard]] bool take(std::uint32_t batch, base::Time now) {
    if (interval_ == base::Duration{}) return true;
    if (next_ && *next_ > now) return false;
    const base::Duration interval = interval_ * batch / whole_;
    next_ = std::max(next_.value_or(now), now - interval) + interval;
    return true;
  }
  /// When the next one may go; nothing: at once.
  [[nodiscard]] std::optional<base::Time> next() const noexcept { return next_; }

 private:
  base::Duration interval_;
  std::uint32_t whole_;
  std::optional<base::Time> next_;
};

}  // namespace starling::peer
