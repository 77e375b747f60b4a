// A peer as its parts see it.
#pragma once

#include <string>

#include "base/peer_id.hpp"
#include "base/time.hpp"
#include "membership/event.hpp"
#include "peer/agreement.hpp"
#include "peer/events.hpp"
#include "peer/status.hpp"
#include "reach/core.hpp"

namespace starling::peer {

/// A part's way to the others: takes an event to the one that it is for, and does all that this one
/// asks for before it returns. After that the peer may have ended, or a link may be gone.
class Whole {
 public:
  Whole(const Whole&) = delete;
  Whole& operator=(const Whole&) = delete;

  virtual void to_membership(membership::Event event, base::Time now, Outbox& out) = 0;
  virtual void to_reach(const reach::Event& event, base::Time now, Outbox& out) = 0;
  virtual void to_agreement(Agreement::Event event, base::Time now, Outbox& out) = 0;
  /// As reach::Core::answered().
  virtual reach::Answered answered(const std::string& address, const base::PeerId& peer,
                                   base::Time now, Outbox& out) = 0;
  /// Says goodbye and ends the peer, unless it has ended.
  virtual void end(Finished finished, base::Time now, Outbox& out) = 0;
  [[nodiscard]] virtual Phase phase() const noexcept = 0;

 protected:
  Whole() = default;
  ~Whole() = default;
};

}  // namespace starling::peer
