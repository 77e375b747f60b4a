#include "membership/detector/failure_detector.hpp"

#include <algorithm>
#include <utility>

#include "base/simulated.hpp"
#include "membership/limits.hpp"

namespace starling::membership {
namespace {

constexpr int kDeviations = 8;

}  // namespace

FailureDetector::FailureDetector(base::Duration heartbeat, base::Time now)
    : expected_(heartbeat),
      mean_(heartbeat),
      deviation_(heartbeat / 4),
      last_heard_(now),
      last_beat_(now) {}

void FailureDetector::heard(base::Time now) noexcept { last_heard_ = std::max(last_heard_, now); }

void FailureDetector::part(base::Time now) noexcept {
  heard(now);
  held_up_ = true;
}

bool FailureDetector::heartbeat(base::Time now) noexcept {
  heard(now);
  // Bounded, so that one long cut does not blind the detector for minutes.
  const base::Duration interval = std::clamp(now - last_beat_, base::Duration{0}, kSilenceMax);
  last_beat_ = std::max(last_beat_, now);
  catching_up_ = std::exchange(held_up_, false) || (catching_up_ && interval < expected_ / 2);
  if (catching_up_) return false;
  const base::Duration error = interval - mean_;
  mean_ += error / 8;
  deviation_ += (std::chrono::abs(error) - deviation_) / 4;
  return true;
}

void FailureDetector::restart(base::Time now) noexcept {
  heard(now);
  last_beat_ = now;
}

base::Duration FailureDetector::timeout() const noexcept {
  if (SIM_BUG(timeout_of_mean)) return mean_ + mean_ / 4;
  const base::Duration least = kSilentBeatsMin * expected_;
  return std::clamp(mean_ + kDeviations * deviation_, least, std::max(least, kSilenceMax));
}

}  // namespace starling::membership
