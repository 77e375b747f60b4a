// The messages between overlay and detector: an action of one is an event of the other.
#pragma once

#include "base/peer_id.hpp"
#include "base/strong.hpp"
#include "base/time.hpp"
#include "membership/event.hpp"
#include "membership/role.hpp"
#include "wire/messages.hpp"

namespace starling::membership {

// --- overlay to detector ---

/// A link was taken; `other` is what its other end says of itself, unproved. Answered by Admitted
/// or EndLink.
struct LinkMet {
  base::LinkId link;
  wire::MemberRecord other;
};

/// `dialed`: by this end. Of two neighbours, that one compares the tables first.
struct RoleSet {
  base::LinkId link;
  Role role = Role::contact;
  bool dialed = false;
};

struct LinkEnded {
  base::LinkId link;
};

/// A member could not be reached and may be dead. Harmless where it is unknown, or dead already.
struct Accuse {
  base::PeerId peer;
  wire::DeathReason reason = wire::DeathReason::none;
};

// --- detector to overlay ---

/// The other end of this link is who it says, or a newer record of it is known.
struct Admitted {
  base::LinkId link;
};

/// The link is of no use any more: `banned`, `silent` or `closed`.
struct EndLink {
  base::LinkId link;
  LossReason reason = LossReason::closed;
};

/// A member counts as alive that did not, or that was unknown.
struct MemberBack {
  base::PeerId peer;
};

/// A member is dead, or has left.
struct MemberGone {
  base::PeerId peer;
  bool left = false;
};

// --- to both, by the core ---

/// This peer did nothing for so long; what others sent meanwhile is unread.
struct StoodStill {
  base::Duration pause{0};
};

}  // namespace starling::membership
