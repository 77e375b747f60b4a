// The heartbeats of one link, both ways: when the next one is sent, the round trip, and since when
// the other end is silent.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/time.hpp"
#include "membership/detector/failure_detector.hpp"
#include "wire/messages.hpp"

namespace starling::membership {

class BeatClock {
 public:
  /// `heartbeat`: the interval to expect of the other end until some were observed.
  BeatClock(base::Duration heartbeat, base::Time now) : silence_(heartbeat, now) {}

  /// A frame arrived, or a part of one, which holds up the heartbeats behind it.
  void heard(bool part, base::Time now) noexcept;
  /// A heartbeat arrived. Counts as heard.
  void take(const wire::Heartbeat& beat, base::Time now);
  /// Silence until now says nothing: this end stood still, or begins to watch.
  void restart(base::Time now) noexcept { silence_.restart(now); }

  /// The heartbeat that this end sends now: number and echo are filled in. The next one is due
  /// after `pause`.
  [[nodiscard]] wire::Heartbeat make(base::Duration pause, base::Time now);
  /// News that cannot wait for the next beat.
  void hurry(base::Time now);

  [[nodiscard]] base::Time next_beat() const noexcept { return next_beat_; }
  [[nodiscard]] base::Time last_heard() const noexcept { return silence_.last_heard(); }
  /// When the present silence becomes suspicious.
  [[nodiscard]] base::Time silent_at() const noexcept { return silence_.deadline(); }
  /// Smoothed; nothing before the first echo.
  [[nodiscard]] std::optional<base::Duration> round_trip() const noexcept { return round_trip_; }

 private:
  static constexpr std::size_t kBeatsKept = 16;

  FailureDetector silence_;
  base::Time next_beat_{};
  base::Time last_beat_{};
  std::uint32_t beats_ = 0;                         ///< number of heartbeats sent
  std::array<base::Time, kBeatsKept> beat_sent_{};  ///< by sequence modulo kBeatsKept
  std::uint32_t beat_heard_ = 0;
  base::Time beat_heard_at_{};
  std::optional<base::Duration> round_trip_;
};

}  // namespace starling::membership
