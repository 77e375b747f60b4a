#include "membership/detector/suspicion.hpp"

#include <algorithm>
#include <cmath>

#include "membership/limits.hpp"

namespace starling::membership {
namespace {

// From kSuspicionBeatsMax with one accuser to kSuspicionBeatsMin with kAccusersMax.
base::Duration lasts(std::size_t accusers, base::Duration beat) {
  const double part = std::log(static_cast<double>(accusers)) / std::log(double{kAccusersMax});
  const double beats = kSuspicionBeatsMax - (kSuspicionBeatsMax - kSuspicionBeatsMin) * part;
  return base::from_seconds(beats * base::seconds(beat));
}

}  // namespace

bool Suspicion::accuse(std::uint64_t by, wire::DeathReason reason, std::size_t partners,
                       base::Duration beat, base::Time now) {
  if (reason_ == wire::DeathReason::none) reason_ = reason;
  if (accusers_.size() >= kAccusersMax || accused_by(by)) return false;
  accusers_.push_back(by);
  ends_ = std::min(ends_, since_ + lasts(accusers_.size(), beat));
  if (accusers_.size() >= partners) ends_ = std::min(ends_, now + beat);
  ends_ = std::max(ends_, not_before_);
  return true;
}

bool Suspicion::shorten_for_verdict(base::Duration beat, base::Time now) {
  const base::Time ends = std::max({now + beat, since_ + lasts(kAccusersMax, beat), not_before_});
  if (ends >= ends_) return false;
  ends_ = ends;
  return true;
}

void Suspicion::extend(base::Duration pause) {
  since_ += pause;
  ends_ += pause;
}

bool Suspicion::accused_by(std::uint64_t by) const {
  return std::ranges::find(accusers_, by) != accusers_.end();
}

}  // namespace starling::membership
