#include "exchange/pace.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/assert.hpp"
#include "exchange/jobs.hpp"

namespace starling::exchange {

using base::Time;

namespace {

constexpr double kBytesInMegabit = 1e6 / 8;
/// Part of its share, and of what its line carries, that a link's densities aim at: what is above
/// has to wait.
constexpr double kAim = 0.95;

}  // namespace

void Bandwidth::add(std::size_t bytes, base::Duration took) {
  const double seconds = base::seconds(took);
  recent_[next_] = seconds > 0 ? static_cast<double>(bytes) / seconds : 0;
  next_ = (next_ + 1) % kWindow;
}

Pace::Pace(const Config& config) : config_(config) {}

void Pace::on_steps(base::StepNumber step, base::Time now) {
  if (step_ && step > *step_) {
    const auto steps = static_cast<double>(step.value - step_->value);
    step_seconds_.add(base::seconds(now - stepped_at_) / steps);
  }
  if (!step_ || step > *step_) {
    step_ = step;
    stepped_at_ = now;
  }
}

void Pace::on_compute(base::Duration took) { compute_seconds_.add(base::seconds(took)); }

void Pace::on_encoded(std::size_t bytes, double density, base::Duration took) {
  ASSERT(density > 0);
  bytes_per_density_.add(static_cast<double>(bytes) / density);
  encode_seconds_.add(base::seconds(took));
}

void Pace::on_committed(base::Duration took) { commit_seconds_.add(base::seconds(took)); }

double Pace::exchange_seconds() const {
  return encode_seconds_.value().value_or(0) + commit_seconds_.value().value_or(0);
}

bool Pace::take_answer(Time now) {
  const double share = config_.cpu_share > 0 ? config_.cpu_share : kAnswerShare;
  const double more = share * base::seconds(now - std::exchange(answered_at_, now));
  answer_credit_ = std::min(answer_credit_ + more, base::seconds(kAnswerCreditMax));
  const double cost = exchange_seconds();
  if (answer_credit_ < cost) return false;
  answer_credit_ -= cost;
  return true;
}

std::uint32_t Pace::every(std::size_t links) const {
  const auto& step = compute_seconds_.value();
  if (config_.cpu_share <= 0 || !step || *step <= 0) return config_.every;
  const double steps =
      static_cast<double>(links) * exchange_seconds() / (config_.cpu_share * *step);
  const double most = std::max(kEveryMax, config_.every);
  return std::max(config_.every, static_cast<std::uint32_t>(std::ceil(std::min(steps, most))));
}

double Pace::bytes_per_second(std::size_t links) const {
  const auto share = static_cast<double>(std::max<std::size_t>(links, 1));
  return config_.upload_limit * kBytesInMegabit / share;
}

bool Pace::is_measured() const noexcept {
  return step_seconds_.value() && bytes_per_density_.value();
}

double Pace::interval(std::size_t links) const { return *step_seconds_.value() * every(links); }

double Pace::density_for(double bytes_per_second, double seconds) const {
  return kAim * bytes_per_second * seconds / *bytes_per_density_.value();
}

double Pace::density(double wanted, std::size_t links) const {
  if (config_.upload_limit <= 0 || !is_measured()) return wanted;
  const double fits = density_for(bytes_per_second(links), interval(links));
  return std::clamp(fits, wanted / kDensityFactorMax, wanted * kDensityFactorMax);
}

// A line that is too narrow would make exchanges late, lateness make them larger, and that make
// them later still: so what a delta itself took does not count as time to fill.
DeltaBudget Pace::budget(double wanted, const Line& line, std::size_t links) const {
  DeltaBudget budget{.density = density(wanted, links),
                     .lag_factor_max = config_.upload_limit > 0 ? 1.0 : kLagFactorMax};
  if (line.bandwidth <= 0 || !is_measured()) return budget;
  const double interval = this->interval(links);
  const double waited = line.lag * interval - static_cast<double>(line.bytes) / line.bandwidth;
  const double most = density_for(line.bandwidth, std::max(interval, waited));
  budget.density = std::clamp(density_for(line.bandwidth, interval),
                              budget.density / kDensityFactorMax, budget.density);
  budget.lag_factor_max = std::clamp(most / budget.density, 1.0, budget.lag_factor_max);
  return budget;
}

base::Duration Pace::upload_time(std::size_t bytes, std::size_t links) const {
  if (config_.upload_limit <= 0) return {};
  const double seconds = static_cast<double>(bytes) / bytes_per_second(links);
  return base::from_seconds(std::min(seconds, base::seconds(kUploadTimeMax)));
}

}  // namespace starling::exchange
