// How much of a link's stream goes in one message: little, until its line is known to be fast.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/time.hpp"
#include "io/ucx_stream.hpp"

namespace starling::io {

/// UCX hands over whole messages alone, so who waits for one hears nothing meanwhile. What a slow
/// line, or one that is not known yet, carries in a message: at 50 kbit/s it comes in 1.3 s.
inline constexpr std::size_t kMessageSmall = 8 * 1024;

class MessageSize {
 public:
  /// The other end has taken so much in all since the link began, modulo 2^32.
  void taken(std::uint32_t total, base::Time now) {
    if (total - total_ < kStep) return;
    max_ = now - at_ < kStepTime ? kMessageMax : kMessageSmall;
    total_ = total;
    at_ = now;
  }
  /// Bytes of a message, at most.
  [[nodiscard]] std::size_t max() const noexcept { return max_; }

 private:
  // At this speed a message of kMessageMax takes a quarter of a second. Pauses count, so the first
  // step after one goes in small messages.
  static constexpr std::uint32_t kStep = 256 * 1024;
  static constexpr base::Duration kStepTime = std::chrono::seconds(1);

  std::uint32_t total_ = 0;
  base::Time at_{};
  std::size_t max_ = kMessageSmall;
};

}  // namespace starling::io
