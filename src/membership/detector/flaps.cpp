#include "membership/detector/flaps.hpp"

#include <algorithm>

#include "base/simulated.hpp"
#include "membership/limits.hpp"

namespace starling::membership {

void Flaps::died(const wire::MemberRecord& record, bool large, base::Time now) {
  if (!has_died_within(kFlapMemory, now)) *this = {};
  if (!cut_) ++deaths_;
  last_death_ = now;
  incarnation_ = record.incarnation;
  large_ = large;
  cut_ = false;
}

base::Time Flaps::ends() const {
  const int free = large_ ? 0 : 1;  // deaths that hold nobody back
  if (cut_ || deaths_ <= free) return last_death_;
  base::Duration hold = kHoldMin;
  for (int i = free + 1; i < deaths_ && hold < kHoldMax; ++i) hold *= 2;
  return last_death_ + std::min(hold, kHoldMax);
}

// A refutation raises the incarnation by little, a new process starts with the time of day.
bool Flaps::same_life(const wire::MemberRecord& record) const {
  return record.incarnation <= incarnation_ + kRefutationsMax;
}

bool Flaps::holds_back(const wire::MemberRecord& record, base::Time now) const {
  if (SIM_BUG(returns_believed)) return false;
  return now < ends() && (deaths_ >= 2 || same_life(record));
}

void Flaps::returned(const wire::MemberRecord& record, base::Time now) {
  if (large_ && !cut_ && same_life(record)) immune_until_ = now + kHoldMin;
}

}  // namespace starling::membership
