// Reach's view of the members: passed in, so that reach needs no member table of its own.
#pragma once

#include "base/peer_id.hpp"
#include "wire/messages.hpp"

namespace starling::reach {

class Members {
 public:
  virtual ~Members() = default;
  /// The record of a member, whose signature was checked; null: not a member.
  [[nodiscard]] virtual const wire::MemberRecord* find(const base::PeerId& peer) const = 0;
};

}  // namespace starling::reach
