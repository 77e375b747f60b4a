#include "membership/detector/beat_clock.hpp"

#include <algorithm>

#include "membership/limits.hpp"

namespace starling::membership {

void BeatClock::heard(bool part, base::Time now) noexcept {
  if (part) {
    silence_.part(now);
  } else {
    silence_.heard(now);
  }
}

void BeatClock::take(const wire::Heartbeat& beat, base::Time now) {
  const bool in_time = silence_.heartbeat(now);
  beat_heard_ = beat.sequence;
  beat_heard_at_ = now;
  if (!in_time || beat.echo == 0 || beat.echo > beats_ || beat.echo + kBeatsKept <= beats_) return;
  const base::Duration age = std::chrono::microseconds(beat.echo_age_us);
  const base::Duration trip = now - beat_sent_[beat.echo % kBeatsKept] - age;
  if (trip < base::Duration{0}) return;
  round_trip_ = round_trip_ ? *round_trip_ + (trip - *round_trip_) / 8 : trip;
}

wire::Heartbeat BeatClock::make(base::Duration pause, base::Time now) {
  ++beats_;
  beat_sent_[beats_ % kBeatsKept] = now;
  last_beat_ = now;
  next_beat_ = now + pause;
  wire::Heartbeat beat{.sequence = beats_, .echo = beat_heard_};
  if (beat_heard_ > 0) {
    const auto age =
        std::chrono::duration_cast<std::chrono::microseconds>(now - beat_heard_at_).count();
    beat.echo_age_us = static_cast<std::uint32_t>(std::min<std::int64_t>(age, 0xffffffff));
  }
  return beat;
}

void BeatClock::hurry(base::Time now) {
  next_beat_ = std::min(next_beat_, std::max(now, last_beat_ + kBeatPauseMin));
}

}  // namespace starling::membership
