// Virtual time for a fuzzed core, and the core's invariants.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdio>

#include <fmt/core.h>

#include "base/assert.hpp"
#include "base/bound.hpp"
#include "base/time.hpp"

namespace starling::fuzz {

/// The most deadlines of one input; the rest is left out, since some inputs would take minutes.
inline constexpr std::size_t kTurnsMax = 1000;
/// Deadlines at one moment: a core that still has another one never comes to an end.
inline constexpr std::size_t kAtOnceMax = 500;

inline void require(const base::Bounds& bounds) {
  const auto& broken = bounds.broken();
  if (!broken) return;
  fmt::print(stderr, "{}: {}, at most {}\n", broken->what, broken->size, broken->limit);
  ASSERT(false, "more is kept, or waits longer, than a limit says");
}

class Clock {
 public:
  [[nodiscard]] base::Time now() const noexcept { return now_; }
  [[nodiscard]] bool is_over() const noexcept { return turns_ >= kTurnsMax; }
  /// As where the process stood still: deadlines are late.
  void jump(base::Duration time) { now_ += time; }

  /// Calls `expire()` at each of the core's deadlines. Both may take time on, or end it all.
  template <class Core, class Expire>
  void pass(const Core& core, base::Duration time, const Expire& expire) {
    const base::Time end = now_ + time;
    std::size_t at_once = 0;
    for (auto due = core.next_deadline(); due && *due <= end; due = core.next_deadline()) {
      if (++turns_ >= kTurnsMax) break;
      at_once = *due > now_ ? 0 : at_once + 1;
      ASSERT(at_once < kAtOnceMax, "what is due is done, and not due again");
      now_ = std::max(now_, *due);
      expire();
    }
    now_ = std::max(now_, end);
  }

 private:
  base::Time now_{std::chrono::seconds(1)};
  std::size_t turns_ = 0;
};

}  // namespace starling::fuzz
