// With whom a peer exchanges.
#pragma once

#include <cstddef>
#include <map>

#include "base/peer_id.hpp"
#include "base/strong.hpp"

namespace starling::peer {

/// The neighbours that membership has named, each with its link.
class Neighbours {
 public:
  void add(const base::PeerId& peer, base::LinkId link) {
    links_[peer] = link;
    met_one_ = true;
  }
  void remove(const base::PeerId& peer) { links_.erase(peer); }

  /// None where it is no neighbour.
  [[nodiscard]] base::LinkId link_of(const base::PeerId& peer) const {
    const auto found = links_.find(peer);
    return found != links_.end() ? found->second : base::LinkId{};
  }
  [[nodiscard]] std::size_t count() const noexcept { return links_.size(); }
  /// There was one at any time.
  [[nodiscard]] bool met_one() const noexcept { return met_one_; }

 private:
  std::map<base::PeerId, base::LinkId> links_;
  bool met_one_ = false;
};

}  // namespace starling::peer
