// A limit per second, with a few at once: a token bucket.
#pragma once

#include <algorithm>

#include "base/time.hpp"

namespace starling::reach {

class Allowance {
 public:
  Allowance(double each_second, double burst)
      : each_second_(each_second), burst_(burst), left_(burst) {}

  /// Takes one if there is one.
  [[nodiscard]] bool take(base::Time now) {
    left_ = std::min(burst_, left_ + base::seconds(now - at_) * each_second_);
    at_ = now;
    if (left_ < 1) return false;
    left_ -= 1;
    return true;
  }

 private:
  double each_second_;
  double burst_;
  double left_;
  base::Time at_{};
};

}  // namespace starling::reach
