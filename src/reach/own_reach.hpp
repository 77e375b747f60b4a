// Whether this peer can be dialed, as other members find out for it. After libp2p's AutoNAT.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/bound.hpp"
#include "base/rng.hpp"
#include "base/time.hpp"
#include "reach/limits.hpp"
#include "reach/links.hpp"
#include "reach/members.hpp"

namespace starling::reach {

class OwnReach {
 public:
  /// `addresses`: where this peer listens; others are asked to dial the first one's port. The other
  /// two outlive this.
  OwnReach(std::vector<std::string> addresses, const Links& links, base::Rng& rng)
      : links_(links), rng_(rng), addresses_(std::move(addresses)) {}

  /// A direct link is ready.
  void on_link(base::Time now);
  void on_link_lost(base::LinkId link);
  void on_answer(base::LinkId from, const wire::DialedBack& answer, const Call& call);
  /// False: these addresses are known, perhaps in another order.
  bool on_moved(const std::vector<std::string>& addresses, const Call& call);
  /// A member had to be introduced to this peer: can it still be dialed?
  void doubt(base::Time now);
  void expire(const Call& call);

  [[nodiscard]] wire::Reachability reach() const noexcept { return reach_; }
  [[nodiscard]] bool is_reachable() const noexcept {
    return reach_ == wire::Reachability::reachable;
  }
  /// The address at which this peer was dialed from outside, or is seen; empty: not known.
  [[nodiscard]] const std::string& outer() const noexcept { return outer_; }
  [[nodiscard]] bool is_own_network(const std::string& address) const;
  [[nodiscard]] bool is_linked() const noexcept { return linked_since_.has_value(); }

  void add_bounds(base::Bounds& out) const {
    out.add("witnesses", witnesses_.size(), kWitnesses);
    out.add("networks of witnesses", networks_.size(), kWitnesses);
  }
  /// Calls visit(what, at, limit) for each time at which expire() has something to do.
  template <class Visit>
  void visit_timers(const Visit& visit) const {
    visit("asking to be dialed back", ask_at_, kAskAgain);
    for (const Witness& witness : witnesses_) visit("a witness", witness.until, kWitnessWait);
  }

 private:
  /// A member that was asked to dial back.
  struct Witness {
    base::LinkId link;
    base::PeerId peer;
    std::uint64_t nonce = 0;
    base::Time until;
    wire::DialBackOutcome outcome = wire::DialBackOutcome::none;
    std::string observed{};
  };

  void ask_soon(base::Time now);
  void ask(const Call& call);
  void conclude_if_told(const Call& call);
  void conclude(const Call& call);
  void tell(Outbox& out) const;

  const Links& links_;
  base::Rng& rng_;
  std::vector<std::string> addresses_;  ///< this machine's own
  wire::Reachability reach_ = wire::Reachability::unknown;
  std::string outer_;
  std::vector<Witness> witnesses_;           ///< of the current round
  std::vector<std::string> networks_;        ///< of the witnesses of the last result
  std::optional<base::Time> ask_at_;         ///< nothing: when a link comes up
  std::optional<base::Time> asked_;          ///< the last round
  std::optional<base::Time> linked_since_;   ///< since when there has always been a link
  base::Duration ask_pause_ = kAskAgainMin;  ///< after a round without a result
};

}  // namespace starling::reach
