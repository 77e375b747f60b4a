// Introductions, as the member in common that passes them on, and as the member that is wanted.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/bound.hpp"
#include "base/time.hpp"
#include "reach/allowance.hpp"
#include "reach/circuits.hpp"
#include "reach/dials.hpp"
#include "reach/limits.hpp"
#include "reach/links.hpp"
#include "reach/members.hpp"
#include "reach/own_reach.hpp"
#include "reach/search.hpp"

namespace starling::reach {

class Introductions {
 public:
  /// All of them outlive this.
  struct Parts {
    const base::PeerId& self;
    Links& links;
    Dials& dials;
    OwnReach& own;
    const Circuits& circuits;
    Search& search;
  };
  explicit Introductions(const Parts& parts) : parts_(parts) {}

  void on_message(base::LinkId from, const wire::Introduce& message, const Call& call);
  void on_link_lost(base::LinkId link);
  void expire(base::Time now);

  void add_bounds(base::Bounds& out) const {
    out.add("members introduced to this peer", introduced_.size(), kIntroducedMax);
  }
  /// Calls visit(what, at, limit) for each time at which expire() has something to do.
  template <class Visit>
  void visit_timers(const Visit& visit) const {
    for (const Introduced& entry : introduced_) {
      visit("the end of an introduction", entry.until, kIntroducedFor);
    }
  }

 private:
  /// A member that asked for a link with this peer.
  struct Introduced {
    base::PeerId peer;
    base::LinkId link;  ///< of the member that passed it on
    std::uint64_t nonce = 0;
    std::string observed;
    base::Time until;
    int goes = 0;
  };

  void pass_on(base::LinkId from, const wire::Introduce& message, const Call& call);
  void on_asked(base::LinkId from, const wire::Introduce& message, const wire::MemberRecord& asker,
                const Call& call);
  void on_go(base::LinkId from, const wire::Introduce& message, const wire::MemberRecord& asker,
             const Call& call);
  void dial_back(std::string address, const Introduced& asker, DialKind kind, const Call& call);

  Parts parts_;
  std::vector<Introduced> introduced_;
  Allowance backs_{kBacksAll, kBacksAllBurst};
};

}  // namespace starling::reach
