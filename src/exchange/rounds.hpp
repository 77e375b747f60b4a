// Rounds of opening a link: what has been said of the current one.
#pragma once

#include <cstdint>

#include "base/assert.hpp"

namespace starling::exchange {

/// Openings of one link until it breaks; a peer that asks for more misbehaves.
inline constexpr std::uint32_t kRoundsMax = 64;

/// Each end sends one LinkOpen a round. Either may start the next round once both LinkOpens of the
/// current one are there; so the ends are never more than a round apart.
class Rounds {
 public:
  /// Rounds since the ends met, the current one included.
  [[nodiscard]] std::uint32_t count() const noexcept { return count_; }
  [[nodiscard]] bool has_sent() const noexcept { return sent_; }
  [[nodiscard]] bool has_received() const noexcept { return received_; }
  [[nodiscard]] bool may_start() const noexcept { return sent_ && received_; }
  /// Whether what arrives now was sent before the other end knew of the current round.
  [[nodiscard]] bool is_stale() const noexcept { return count_ > 1 && !received_; }

  /// The own LinkOpen of the current round.
  void send() {
    ASSERT(!sent_);
    sent_ = true;
  }
  /// The other end's LinkOpen of the current round.
  void receive() {
    ASSERT(!received_);
    received_ = true;
  }
  void start() {
    ASSERT(may_start());
    ++count_;
    sent_ = received_ = false;
  }

 private:
  std::uint32_t count_ = 1;
  bool sent_ = false;
  bool received_ = false;
};

}  // namespace starling::exchange
