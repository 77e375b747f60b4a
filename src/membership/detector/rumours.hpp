// News that goes once over each link, but not back over the one that it came by: changed records,
// and claims about members. Told before an event's handling ends, so this is empty between two.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "base/bound.hpp"
#include "base/peer_id.hpp"
#include "base/strong.hpp"
#include "membership/detector/event.hpp"
#include "membership/detector/watch.hpp"
#include "membership/member_table.hpp"

namespace starling::membership {

/// That `by` holds the member of this record for suspect, or dead.
[[nodiscard]] wire::Claim claim_of(const wire::MemberRecord& record, std::uint64_t by,
                                   wire::MemberState state, wire::DeathReason reason);

class Rumours {
 public:
  /// `from`: the link that it came by; no valid one: from here.
  void add(const base::PeerId& member, base::LinkId from);
  void add(const wire::Claim& claim, base::LinkId from) { claims_.push_back({claim, from}); }
  /// Tells all of it, with the members' records as they are now.
  void tell(const MemberTable& table, const Watch& watch, DetectorOutbox& out);

  void add_bounds(base::Bounds& out) const;

 private:
  struct QueuedClaim {
    wire::Claim claim;
    base::LinkId from;
  };

  std::map<base::PeerId, base::LinkId> records_;
  std::vector<QueuedClaim> claims_;
};

}  // namespace starling::membership
