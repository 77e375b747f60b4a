// This peer's ready links.
#pragma once

#include <map>
#include <string>

#include "base/assert.hpp"
#include "base/bound.hpp"
#include "base/peer_id.hpp"
#include "base/strong.hpp"
#include "reach/allowance.hpp"
#include "reach/event.hpp"
#include "reach/limits.hpp"

namespace starling::reach {

struct Link {
  base::PeerId peer;
  std::string observed;  ///< the other end's address as seen here
  base::LinkId via;      ///< over a circuit: the link with the relay
  int holds = 0;         ///< the circuits that it carries, offered ones included
  Allowance dial_backs{kDialBacksEach, kDialBacksEachBurst};
  Allowance introductions{kIntroductionsEach, kIntroductionsEachBurst};

  [[nodiscard]] bool is_direct() const noexcept { return !via.valid(); }
};

class Links {
 public:
  void add(const LinkReady& event) {
    ASSERT(event.link.valid() && !links_.contains(event.link), "a link becomes ready once");
    links_[event.link] = {.peer = event.peer, .observed = event.observed, .via = event.via};
  }
  /// False: the link was never ready.
  bool erase(base::LinkId link) { return links_.erase(link) > 0; }

  [[nodiscard]] bool contains(base::LinkId link) const { return links_.contains(link); }
  /// A link that it contains.
  [[nodiscard]] Link& at(base::LinkId link) { return links_.at(link); }
  [[nodiscard]] const std::map<base::LinkId, Link>& all() const noexcept { return links_; }
  /// The direct link with this member, if any.
  [[nodiscard]] base::LinkId direct(const base::PeerId& peer) const {
    for (const auto& [id, link] : links_) {
      if (link.peer == peer && link.is_direct()) return id;
    }
    return {};
  }

  /// One circuit more, or one less, on this link.
  void hold(base::LinkId link, int change, Outbox& out) {
    const auto found = links_.find(link);
    if (found == links_.end()) return;
    int& holds = found->second.holds;
    const bool before = holds > 0;
    holds += change;
    if (before != (holds > 0)) out.push_back(Hold{link, holds > 0});
  }

  void add_bounds(base::Bounds& out) const {
    out.add("links that reach knows", links_.size(), kLinksMax);
  }

 private:
  std::map<base::LinkId, Link> links_;
};

}  // namespace starling::reach
