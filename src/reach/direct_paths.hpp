// A link over a circuit looks for a direct path, more and more rarely. The end that asked does it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <map>

#include "base/bound.hpp"
#include "base/jitter.hpp"
#include "reach/limits.hpp"
#include "reach/search.hpp"

namespace starling::reach {

class DirectPaths {
 public:
  /// Both outlive this.
  DirectPaths(Search& search, base::Rng& rng) : search_(search), rng_(rng) {}

  void on_link(const LinkReady& event, base::Time now) {
    if (!event.via.valid()) {
      std::erase_if(upgrades_, [&](const auto& entry) { return entry.second.peer == event.peer; });
    } else if (event.asked) {
      upgrades_[event.link] = {event.peer, now + kUpgradeMin, kUpgradeMin};
    }
  }
  void on_link_lost(base::LinkId link) { upgrades_.erase(link); }
  void on_moved(base::Time now) {
    for (auto& [link, upgrade] : upgrades_) {
      upgrade.pause = kUpgradeMin;
      upgrade.at = std::min(upgrade.at, now + kUpgradeMin);
    }
  }
  void expire(const Call& call) {
    for (auto& [link, upgrade] : upgrades_) {
      if (upgrade.at > call.now) continue;
      upgrade.pause = std::min<base::Duration>(2 * upgrade.pause, kUpgradeMax);
      upgrade.at = call.now + base::jittered(upgrade.pause, rng_);
      search_.look_for_path(upgrade.peer, call);
    }
  }

  void add_bounds(base::Bounds& out, std::size_t links) const {
    out.add("relayed links", upgrades_.size(), links);
  }
  /// Calls visit(what, at, limit) for each time at which expire() has something to do.
  template <class Visit>
  void visit_timers(const Visit& visit) const {
    for (const auto& [link, upgrade] : upgrades_) {
      visit("the look for a direct path", upgrade.at, kUpgradeMax);
    }
  }

 private:
  struct Upgrade {
    base::PeerId peer;
    base::Time at;
    base::Duration pause{};
  };

  Search& search_;
  base::Rng& rng_;
  std::map<base::LinkId, Upgrade> upgrades_;  ///< by the relayed link
};

}  // namespace starling::reach
