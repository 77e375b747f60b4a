// Time as the protocol cores see it: a value passed in, never read from a clock.
#pragma once

#include <chrono>
#include <optional>

namespace starling::base {

/// The clock of a peer's core. It has no now(): the real world passes its monotonic clock, the
/// simulated one its virtual clock. Time never decreases.
struct CoreClock {
  using duration = std::chrono::nanoseconds;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<CoreClock>;
  static constexpr bool is_steady = true;
};

using Duration = CoreClock::duration;
using Time = CoreClock::time_point;

/// Seconds as a floating-point number, for rates and reports.
[[nodiscard]] constexpr double seconds(Duration duration) noexcept {
  return std::chrono::duration<double>(duration).count();
}

/// The duration of `s` seconds, to the nanosecond.
[[nodiscard]] constexpr Duration from_seconds(double s) noexcept {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(s));
}

/// The earliest of several deadlines.
class Earliest {
 public:
  /// No deadline changes nothing.
  void add(std::optional<Time> deadline) noexcept {
    if (deadline && (!earliest_ || *deadline < *earliest_)) earliest_ = deadline;
  }
  /// Nothing: there is none.
  [[nodiscard]] std::optional<Time> value() const noexcept { return earliest_; }

 private:
  std::optional<Time> earliest_;
};

}  // namespace starling::base
