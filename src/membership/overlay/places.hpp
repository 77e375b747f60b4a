// How many neighbours a peer has, seeks and takes, and which one it gives away.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/rng.hpp"
#include "base/time.hpp"
#include "membership/detector/watch.hpp"
#include "membership/limits.hpp"
#include "membership/overlay/candidates.hpp"
#include "membership/overlay/links.hpp"

namespace starling::membership {

class Places {
 public:
  /// All outlive this.
  Places(std::uint32_t degree, const MemberTable& table, const Watch& watch, const Links& links,
         const Candidates& candidates)
      : degree_(degree), table_(table), watch_(watch), links_(links), candidates_(candidates) {}

  /// Neighbours that this peer misses, those that it has asked counted in.
  [[nodiscard]] std::size_t wanted(base::Time now) const;
  [[nodiscard]] bool wants_relays() const;
  /// Whether one more neighbour may be at the other end of this link.
  [[nodiscard]] bool has_room_for(const Link& link, base::Time now) const;
  /// The neighbour to give away; nothing: there are not too many. Never the last that came.
  [[nodiscard]] std::optional<base::LinkId> surplus(base::Rng& rng) const;

  [[nodiscard]] std::size_t neighbours_max() const {
    return candidates_.is_relay() ? kServedMax : degree_ + kDegreeSlack;
  }
  [[nodiscard]] std::size_t ready_links_max() const {
    return candidates_.is_relay() ? kReadyLinksOfRelayMax : kReadyLinksMax;
  }

 private:
  /// Neighbours, those that fell silent included unless they are half of all: that is a cut, and
  /// the own side may have others.
  [[nodiscard]] std::size_t responsive(base::Time now) const;
  /// Whether this neighbour needs this relay no more than others.
  [[nodiscard]] bool needs_no_relay(const Link& link) const;

  std::uint32_t degree_;
  const MemberTable& table_;
  const Watch& watch_;
  const Links& links_;
  const Candidates& candidates_;
};

}  // namespace starling::membership
