#include "peer/speed_meter.hpp"

#include <algorithm>

#include "wire/messages.hpp"

namespace starling::peer {
namespace {

constexpr double kSpeedMin = 1e-6;

}  // namespace

std::optional<float> SpeedMeter::measure(std::uint64_t samples, float told, base::Time now) {
  std::optional<float> news;
  if (since_) {
    const base::Duration passed = now - *since_;
    if (passed < (told == 0 ? kSpeedFirst : kSpeedAgain)) return std::nullopt;
    const double known = told;
    const double speed = static_cast<double>(samples - samples_) / base::seconds(passed);
    if (speed >= known * kSpeedChangeMin || speed <= known / kSpeedChangeMin) {
      const auto most = static_cast<double>(wire::kSpeedMax);
      news = static_cast<float>(std::clamp(speed, kSpeedMin, most));
    }
  }
  since_ = now;
  samples_ = samples;
  return news;
}

}  // namespace starling::peer
