// Reach's view of the members: passed in, so that reach needs no member table of its own.
#pragma once

#include <utility>

#include "base/peer_id.hpp"
#include "base/time.hpp"
#include "reach/event.hpp"
#include "wire/messages.hpp"

namespace starling::reach {

class Members {
 public:
  virtual ~Members() = default;
  /// The record of a member, whose signature was checked; null: not a member.
  [[nodiscard]] virtual const wire::MemberRecord* find(const base::PeerId& peer) const = 0;
};

/// The surroundings of one call, as each part of reach gets them.
struct Call {
  const Members& members;
  base::Time now;
  Outbox& out;

  void send(base::LinkId link, wire::Message message) const {
    out.push_back(Send{link, std::move(message)});
  }
};

}  // namespace starling::reach
