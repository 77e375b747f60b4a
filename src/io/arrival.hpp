// How long a frame that comes in parts takes to arrive, and how much of it is here.
#pragma once

#include <cstddef>
#include <utility>

#include "base/time.hpp"
#include "peer/events.hpp"

namespace starling::io {

class Arrival {
 public:
  /// `count` more bytes have arrived.
  void add(std::size_t count, base::Time now) {
    if (bytes_ == 0) {
      began_ = told_at_ = now;
      first_ = count;
    }
    bytes_ += count;
    untold_ += count;
  }

  /// The bytes since the last event (peer::Arriving), if they are enough for another one; otherwise
  /// 0.
  [[nodiscard]] std::size_t take_part(base::Time now) {
    if (untold_ < peer::kArrivingMin || now - told_at_ < peer::kArrivingEvery) return 0;
    told_at_ = now;
    return std::exchange(untold_, 0);
  }

  /// The time from its first byte to its last. The time of the bytes that came first is not known,
  /// and is estimated from the others. 0 if all came together.
  [[nodiscard]] base::Duration took(base::Time now) const {
    if (bytes_ == first_) return {};
    const double share = static_cast<double>(bytes_) / static_cast<double>(bytes_ - first_);
    return base::from_seconds(base::seconds(now - began_) * share);
  }

 private:
  base::Time began_{};
  std::size_t first_ = 0;
  std::size_t bytes_ = 0;
  base::Time told_at_{};
  std::size_t untold_ = 0;
};

}  // namespace starling::io
