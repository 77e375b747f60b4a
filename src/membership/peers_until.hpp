// Peers that are left alone, each until a time.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string_view>

#include "base/bound.hpp"
#include "base/peer_id.hpp"
#include "base/time.hpp"
#include "membership/limits.hpp"

namespace starling::membership {

class PeersUntil {
 public:
  /// Above kMembersMax peers nothing is kept.
  void add(const base::PeerId& peer, base::Time until) {
    if (until_.size() < kMembersMax) until_[peer] = until;
  }
  /// Also those whose time is over, until they are dropped.
  [[nodiscard]] bool contains(const base::PeerId& peer) const { return until_.contains(peer); }
  /// What is left of its time; nothing where it is over.
  [[nodiscard]] std::optional<base::Duration> left(const base::PeerId& peer, base::Time now) const {
    const auto found = until_.find(peer);
    if (found == until_.end() || found->second <= now) return std::nullopt;
    return found->second - now;
  }
  void erase(const base::PeerId& peer) { until_.erase(peer); }
  template <class Drops>
  void erase_if(const Drops& drops) {
    std::erase_if(until_, [&](const auto& entry) { return drops(entry.first); });
  }
  void drop_over(base::Time now) {
    std::erase_if(until_, [&](const auto& entry) { return entry.second <= now; });
  }

  [[nodiscard]] std::size_t size() const noexcept { return until_.size(); }
  /// `what` and `limit`: of each one's time.
  void add_timers(std::string_view what, base::Time now, base::Duration limit,
                  base::Bounds& out) const {
    for (const auto& [peer, until] : until_) out.add_timer(what, until, now, limit);
  }

 private:
  std::map<base::PeerId, base::Time> until_;
};

}  // namespace starling::membership
