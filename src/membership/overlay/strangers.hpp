// How many strangers a peer takes up: kStrangersPerSecond, and as many at once.
#pragma once

#include <algorithm>

#include "base/time.hpp"
#include "membership/limits.hpp"

namespace starling::membership {

class Strangers {
 public:
  /// Whether there is time for one more; it is used up.
  [[nodiscard]] bool take(base::Time now) {
    const double earned = base::seconds(now - at_) * kStrangersPerSecond;
    left_ = std::min(left_ + earned, kStrangersPerSecond);
    at_ = now;
    if (left_ < 1) return false;
    left_ -= 1;
    return true;
  }

 private:
  double left_ = kStrangersPerSecond;
  base::Time at_{};
};

}  // namespace starling::membership
