// How much of a link's stream one record carries: little, until its line is known to be fast.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/time.hpp"
#include "io/cells.hpp"

namespace starling::io {

/// The size of records on a slow line, or one that is not known yet: at 50 kbit/s, such a record
/// arrives in 1.3 s. A record is read when all of it is here, so the receiver hears nothing
/// meanwhile.
inline constexpr std::size_t kRecordSmall = 8 * 1024;

class RecordSize {
 public:
  /// The other end has taken `total` bytes since the link began.
  void taken(std::uint64_t total, base::Time now) {
    if (total - total_ < kStep) return;
    max_ = now - at_ < kStepTime ? kCellMax : kRecordSmall;
    total_ = total;
    at_ = now;
  }
  /// Bytes in a record, at most.
  [[nodiscard]] std::size_t max() const noexcept { return max_; }

 private:
  // At this speed, a record of kCellMax takes a sixteenth of a second. Pauses count, so the first
  // step after a pause goes in small records.
  static constexpr std::uint64_t kStep = 256UL * 1024;
  static constexpr base::Duration kStepTime = std::chrono::seconds(1);

  std::uint64_t total_ = 0;
  base::Time at_{};
  std::size_t max_ = kRecordSmall;
};

}  // namespace starling::io
