#include "exchange/pace.hpp"

#include <algorithm>
#include <cmath>

#include "base/assert.hpp"
#include "exchange/jobs.hpp"

namespace starling::exchange {
namespace {

constexpr double kBytesInMegabit = 1e6 / 8;
/// Part of its share that a link's densities aim at: what is above the share has to wait.
constexpr double kAim = 0.95;

}  // namespace

Pace::Pace(const Config& config) : config_(config) {}

void Pace::stepped(base::StepNumber step, base::Time now) {
  if (step_ && step > *step_) {
    const auto steps = static_cast<double>(step.value - step_->value);
    step_seconds_.add(base::seconds(now - stepped_at_) / steps);
  }
  if (!step_ || step > *step_) {
    step_ = step;
    stepped_at_ = now;
  }
}

void Pace::computed(base::Duration took) { compute_seconds_.add(base::seconds(took)); }

void Pace::wrote(std::size_t bytes, double density, base::Duration took) {
  ASSERT(density > 0);
  bytes_per_density_.add(static_cast<double>(bytes) / density);
  encode_seconds_.add(base::seconds(took));
}

void Pace::committed(base::Duration took) { commit_seconds_.add(base::seconds(took)); }

std::uint32_t Pace::every(std::size_t links) const {
  const auto& step = compute_seconds_.value();
  if (config_.cpu_share <= 0 || !step || *step <= 0) return config_.every;
  const double exchange = encode_seconds_.value().value_or(0) + commit_seconds_.value().value_or(0);
  const double steps = static_cast<double>(links) * exchange / (config_.cpu_share * *step);
  const double most = std::max(kEveryMax, config_.every);
  return std::max(config_.every, static_cast<std::uint32_t>(std::ceil(std::min(steps, most))));
}

double Pace::bytes_per_second(std::size_t links) const {
  const auto share = static_cast<double>(std::max<std::size_t>(links, 1));
  return config_.upload_limit * kBytesInMegabit / share;
}

double Pace::density(double wanted, double drift, std::size_t links) const {
  if (config_.upload_limit <= 0) {
    if (config_.critical_drift <= 0 || drift <= 0) return wanted;  // or none is known yet
    return wanted *
           std::clamp(drift / config_.critical_drift, 1 / kDriftFactorMax, kDriftFactorMax);
  }
  if (!step_seconds_.value() || !bytes_per_density_.value()) return wanted;
  const double interval = *step_seconds_.value() * every(links);
  const double fits = kAim * bytes_per_second(links) * interval / *bytes_per_density_.value();
  return std::clamp(fits, wanted / kDensityFactorMax, wanted * kDensityFactorMax);
}

double Pace::lag_factor_max() const noexcept {
  return config_.upload_limit > 0 ? 1.0 : kLagFactorMax;
}

base::Duration Pace::hold(std::size_t bytes, std::size_t links) const {
  if (config_.upload_limit <= 0) return {};
  const double seconds = static_cast<double>(bytes) / bytes_per_second(links);
  return base::from_seconds(std::min(seconds, base::seconds(kHoldMax)));
}

}  // namespace starling::exchange
