// How long a peer that misbehaves is kept out: twice as long each time, and it is forgiven after a
// while without a ban.
#pragma once

#include <algorithm>
#include <cstddef>
#include <map>

#include "base/peer_id.hpp"
#include "base/time.hpp"
#include "membership/limits.hpp"

namespace starling::membership {

class Bans {
 public:
  /// How long the ban lasts that begins now. Above kMembersMax peers, all are the first of a peer.
  [[nodiscard]] base::Duration begin(const base::PeerId& peer, base::Time now) {
    if (bans_.size() >= kMembersMax && !bans_.contains(peer)) return kBanTime;
    Ban& ban = bans_[peer];
    if (ban.forgiven <= now) ban = {};
    ban.length = std::clamp(2 * ban.length, kBanTime, kBanMax);
    ban.forgiven = now + ban.length + kBanMemory;
    return ban.length;
  }
  void drop_forgiven(base::Time now) {
    std::erase_if(bans_, [now](const auto& entry) { return entry.second.forgiven <= now; });
  }
  [[nodiscard]] std::size_t size() const noexcept { return bans_.size(); }

 private:
  struct Ban {
    base::Duration length{};
    base::Time forgiven{};
  };

  std::map<base::PeerId, Ban> bans_;
};

}  // namespace starling::membership
