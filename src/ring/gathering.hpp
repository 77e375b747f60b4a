// The peers of a ring before it is made: who is here, and what they have sent by then.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "base/bound.hpp"
#include "base/peer_id.hpp"
#include "base/time.hpp"
#include "ring/ring.hpp"
#include "wire/messages.hpp"

namespace starling::ring {

/// The neighbours of a ring must have been the same for this long before it is made. So a peer too
/// many is noticed before the first step.
inline constexpr base::Duration kQuiet = std::chrono::milliseconds(500);

class Gathering {
 public:
  /// Another peer, with a link.
  struct Arrival {
    std::optional<std::uint64_t> life;  ///< of its process
    std::optional<Ring::Position> has;  ///< what it said of this peer's messages
    std::vector<wire::Reduce> early;    ///< its part of the first step
    std::size_t early_bytes = 0;
  };
  using Arrivals = std::map<base::PeerId, Arrival>;

  /// `peers`: of the ring, this one included. `elements`: of the vectors that go round.
  Gathering(std::uint32_t peers, std::size_t elements) : peers_(peers), elements_(elements) {}

  void link_up(const base::PeerId& peer, base::Time now);
  /// It may come back, in another life.
  void link_down(const base::PeerId& peer, base::Time now);
  /// False: no ring could have asked for this message.
  [[nodiscard]] bool take(const base::PeerId& peer, wire::Reduce message);
  void take(const base::PeerId& peer, const wire::ReduceReceived& message);
  /// No ring is made any more.
  void stop() noexcept;

  /// When the ring is to be made, as far as is known.
  [[nodiscard]] std::optional<base::Time> due() const noexcept { return quiet_until_; }
  [[nodiscard]] const Arrivals& arrivals() const noexcept { return arrivals_; }
  /// The ring is made: nobody is here afterwards.
  [[nodiscard]] Arrivals end() { return std::exchange(arrivals_, {}); }
  void add_bounds(base::Bounds& out) const;
  void add_timers(base::Time now, base::Bounds& out) const;

 private:
  void await_quiet(base::Time now);
  [[nodiscard]] std::size_t bytes_max() const noexcept { return sizeof(float) * elements_; }
  [[nodiscard]] std::size_t messages_max() const noexcept {
    return elements_ / kBucketElements + peers_;
  }

  std::uint32_t peers_;
  std::size_t elements_;
  Arrivals arrivals_;
  bool stopped_ = false;
  std::optional<base::Time> quiet_until_;  ///< all are here
};

}  // namespace starling::ring
