#include "peer/weight_meter.hpp"

#include <algorithm>
#include <cmath>

namespace starling::peer {
namespace {

/// The first measured span that is longer than one step.
constexpr base::Duration kSpanFirst = std::chrono::milliseconds(250);

/// Members that are alive and have this weight.
std::size_t count_of(std::int8_t weight, const membership::MemberTable& members) {
  return static_cast<std::size_t>(std::ranges::count_if(members.members(), [&](const auto& entry) {
    const wire::MemberRecord& record = entry.second.record;
    return record.id != members.self_id() && record.weight == weight &&
           membership::counts_as_alive(record.state);
  }));
}

/// The exponent for a speed, for a peer that has `own` now.
std::int8_t exponent_of(double speed, std::int8_t own, const membership::MemberTable& members) {
  constexpr double kLeast = wire::kNoWeight + 1;
  const double exact = std::clamp(std::log2(speed), kLeast, double{wire::kWeightMax});
  const auto low = static_cast<std::int8_t>(std::floor(exact));
  const auto high = static_cast<std::int8_t>(std::ceil(exact));
  if (exact - low > kWeightBand) return high;
  if (high - exact > kWeightBand) return low;
  const auto supporters = [&](std::int8_t weight) {
    return count_of(weight, members) + (weight == own ? 1U : 0U);
  };
  const std::size_t for_low = supporters(low);
  const std::size_t for_high = supporters(high);
  if (for_low == 0 && for_high == 0) return exact - low < 0.5 ? low : high;
  return for_low > for_high ? low : high;
}

}  // namespace

void WeightMeter::begin(base::Time now) noexcept {
  begun_ = now;
  samples_ = 0;
  steps_ = 0;
}

void WeightMeter::on_step(double samples, const membership::MemberTable& members, base::Time now) {
  const double waited = base::seconds(now - last_);
  last_ = now;
  if (!begun_) return begin(now);
  if (interval_ > 0 && waited > kWeightPause * interval_) {
    interval_ = waited;  // if the next one takes as long, this peer has become slow
    return begin(now);
  }
  samples_ += samples;
  ++steps_;
  const base::Duration passed = now - *begun_;
  if (passed < span_ || passed <= base::Duration{}) return;
  interval_ = base::seconds(passed) / steps_;
  weight_ = exponent_of(samples_ / base::seconds(passed), weight_, members);
  span_ = std::clamp(2 * span_, kSpanFirst, kWeightSpanMax);
  begin(now);
}

}  // namespace starling::peer
