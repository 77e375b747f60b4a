// How much of a link's stream goes in one record: little, until its line is known to be fast.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/time.hpp"
#include "io/cells.hpp"

namespace starling::io {

/// A record is read when all of it is here, so its receiver hears nothing meanwhile. What a slow
/// line, or one that is not known yet, carries in a record: at 50 kbit/s it comes in 1.3 s.
inline constexpr std::size_t kRecordSmall = 8 * 1024;

class RecordSize {
 public:
  /// The other end has taken so much in all since the link began.
  void taken(std::uint64_t total, base::Time now) {
    if (total - total_ < kStep) return;
    max_ = now - at_ < kStepTime ? kCellMax : kRecordSmall;
    total_ = total;
    at_ = now;
  }
  /// Bytes in a record, at most.
  [[nodiscard]] std::size_t max() const noexcept { return max_; }

 private:
  // At this speed a record of kCellMax takes a sixteenth of a second. Pauses count, so the first
  // step after one goes in small records.
  static constexpr std::uint64_t kStep = 256UL * 1024;
  static constexpr base::Duration kStepTime = std::chrono::seconds(1);

  std::uint64_t total_ = 0;
  base::Time at_{};
  std::size_t max_ = kRecordSmall;
};

}  // namespace starling::io
