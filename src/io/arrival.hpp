// How long a frame that comes in parts takes to come.
#pragma once

#include <cstddef>

#include "base/time.hpp"

namespace starling::io {

class Arrival {
 public:
  /// So many of its bytes are here.
  void add(std::size_t count, base::Time now) {
    if (bytes_ == 0) {
      began_ = now;
      first_ = count;
    }
    bytes_ += count;
  }

  /// From its first byte to its last: how long those took that came first is not known, and taken
  /// from the others. 0 where all came together.
  [[nodiscard]] base::Duration took(base::Time now) const {
    if (bytes_ == first_) return {};
    const double share = static_cast<double>(bytes_) / static_cast<double>(bytes_ - first_);
    return base::from_seconds(base::seconds(now - began_) * share);
  }

 private:
  base::Time began_{};
  std::size_t first_ = 0;
  std::size_t bytes_ = 0;
};

}  // namespace starling::io
