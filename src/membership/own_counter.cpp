#include "membership/own_counter.hpp"

#include <algorithm>

#include "membership/limits.hpp"

namespace starling::membership {
namespace {

// A rate is measured over at least this long: steps come in bursts.
constexpr base::Duration kRateInterval = std::chrono::milliseconds(500);
constexpr double kRateMemory = 0.5;  ///< weight of the old rate in the new one
constexpr int kStallSteps = 4;       ///< a step that takes so many times as long as others stands

}  // namespace

bool OwnCounter::recall(std::uint64_t samples) {
  if (!is_set_) least_ = std::max(least_, samples);
  if (!is_set_ || samples <= samples_) return false;
  const std::uint64_t more = samples - samples_;
  recalled_ += more;
  rate_samples_ += more;
  samples_ = samples;
  return true;
}

bool OwnCounter::set(std::uint64_t samples, bool trains, base::Time now) {
  const bool first = !is_set_;
  if (first && samples < least_) recalled_ = least_ - samples;
  is_set_ = true;
  const std::uint64_t before = samples_;
  samples_ = std::max(samples_, samples + recalled_);
  const bool stepped = samples_ > before;
  const bool begins = trains && !trains_;
  const bool changes = trains != trains_;
  trains_ = trains;
  // The samples that a life starts with are not a step, and say nothing of its rate.
  if (!trains) return first || changes;
  if (stepped && !begins) step_ = std::max(now - stepped_at_, step_ - step_ / kStallSteps);
  if (stepped || begins) stepped_at_ = now;
  if (begins) rate_ = 0;
  if (begins || (stalled_ && stepped)) {
    rate_since_ = now;
    rate_samples_ = samples_;
    stalled_ = false;
  }
  const bool unmeasured = rate_ == 0;
  measure(now);
  return first || changes || (unmeasured && rate_ > 0);
}

void OwnCounter::measure(base::Time now) {
  const base::Duration interval = now - rate_since_;
  if (interval < kRateInterval) return;
  const double made = static_cast<double>(samples_ - rate_samples_);
  const double rate = std::min(made / base::seconds(interval), kRateMax);
  rate_ = rate_ == 0 ? rate : kRateMemory * rate_ + (1 - kRateMemory) * rate;
  highest_rate_ = std::max(highest_rate_, rate_);
  rate_since_ = now;
  rate_samples_ = samples_;
}

bool OwnCounter::has_stalled(base::Time now) {
  if (!trains_ || stalled_ || rate_ == 0) return false;
  if (now - stepped_at_ < std::max(kStall, kStallSteps * step_)) return false;
  stalled_ = true;
  return true;
}

}  // namespace starling::membership
