// Reasons for and against other peers as neighbours, each until a time. One row a peer: also
// peers of which there is no record, such as those that were banned before they showed one.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string_view>

#include "base/bound.hpp"
#include "base/peer_id.hpp"
#include "base/time.hpp"
#include "membership/limits.hpp"

namespace starling::membership {

enum class Standing : std::uint8_t {
  banned,        ///< it misbehaved
  no_room,       ///< one of the two has no memory for a link with the other
  had_no_place,  ///< it rejected this peer lately
  wanted_back,   ///< a neighbour that was lost without its doing
  count
};

class Standings {
 public:
  /// Above kMembersMax peers nothing is kept.
  void add(Standing standing, const base::PeerId& peer, base::Time until) {
    if (rows_.size() < kMembersMax || rows_.contains(peer)) rows_[peer][index(standing)] = until;
  }
  /// Also where its time is over, until it is dropped.
  [[nodiscard]] bool has(Standing standing, const base::PeerId& peer) const {
    return until(standing, peer) != base::Time{};
  }
  /// The rest of its time; nothing if it is over.
  [[nodiscard]] std::optional<base::Duration> left(Standing standing, const base::PeerId& peer,
                                                   base::Time now) const {
    const base::Time end = until(standing, peer);
    return end > now ? std::optional(end - now) : std::nullopt;
  }
  void erase(Standing standing, const base::PeerId& peer) {
    const auto found = rows_.find(peer);
    if (found != rows_.end()) found->second[index(standing)] = {};
  }
  void drop_over(base::Time now) {
    for (auto& [peer, row] : rows_) {
      for (base::Time& until : row) until = until <= now ? base::Time{} : until;
    }
    std::erase_if(rows_, [](const auto& entry) { return entry.second == Row{}; });
  }

  [[nodiscard]] std::size_t size() const noexcept { return rows_.size(); }
  void add_timers(base::Time now, base::Bounds& out) const {
    struct Limit {
      std::string_view what;
      base::Duration most;
    };
    static constexpr std::array<Limit, kStandings> kLimits{{
        {"the end of a ban", kBanMax},
        {"room for a peer", kNoRoomTime},
        {"a place for this peer", kNoPlaceMemory},
        {"the return of a neighbour", kReconnectFirst},
    }};
    for (const auto& [peer, row] : rows_) {
      for (std::size_t i = 0; i < kStandings; ++i) {
        out.add_timer(kLimits[i].what, row[i], now, kLimits[i].most);
      }
    }
  }

 private:
  static constexpr auto kStandings = static_cast<std::size_t>(Standing::count);
  /// Until when each holds; the epoch: it does not.
  using Row = std::array<base::Time, kStandings>;

  static constexpr std::size_t index(Standing standing) {
    return static_cast<std::size_t>(standing);
  }
  [[nodiscard]] base::Time until(Standing standing, const base::PeerId& peer) const {
    const auto found = rows_.find(peer);
    return found == rows_.end() ? base::Time{} : found->second[index(standing)];
  }

  std::map<base::PeerId, Row> rows_;
};

}  // namespace starling::membership
