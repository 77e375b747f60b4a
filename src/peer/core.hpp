// The peer: membership, reach, agreement and training as one deterministic core. It has no clock,
// socket, thread or file; events go in, actions come out, and one seed decides the rest.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/bound.hpp"
#include "base/rng.hpp"
#include "data/sharding.hpp"
#include "membership/core.hpp"
#include "peer/agreement.hpp"
#include "peer/config.hpp"
#include "peer/events.hpp"
#include "peer/known_addresses.hpp"
#include "peer/lifecycle.hpp"
#include "peer/links.hpp"
#include "peer/neighbours.hpp"
#include "peer/saving.hpp"
#include "peer/status.hpp"
#include "peer/training.hpp"
#include "peer/whole.hpp"
#include "reach/core.hpp"

namespace starling::peer {

/// Composes the parts of a peer, and carries events to them and between them. What a part decides
/// stands there.
class Core final : private Whole {
 public:
  /// `self`: this peer's record, with the addresses that others can dial; `signer` signs it. One
  /// without a replica makes a relay: it exchanges and trains nothing, and where `config.run` is
  /// zero it serves the run of the first peer that says hello. `shards` and `signer` outlive this.
  Core(Config config, wire::MemberRecord self, const data::Shards& shards, const Resume& resume,
       membership::Signer& signer, base::Rng rng);

  /// Time never decreases. Appends what is to be done, in order.
  void handle(Event event, base::Time now, Outbox& out);
  [[nodiscard]] std::optional<base::Time> next_deadline() const;
  void expire(base::Time now, Outbox& out);

  [[nodiscard]] Status status(base::Time now) const;
  [[nodiscard]] Phase phase() const noexcept override { return lifecycle_.phase(); }
  /// The parts, to be looked at.
  [[nodiscard]] const membership::Core& membership() const noexcept { return membership_; }
  [[nodiscard]] const exchange::Core& exchange() const noexcept { return agreement_.exchange(); }
  [[nodiscard]] const reach::Core& reach() const noexcept { return reach_; }
  /// All that can grow, and all that waits, in this core and its parts: between two calls, nothing
  /// is above its limit. add_bounds() is cheap; add_timers() looks at everything that waits.
  void add_bounds(base::Bounds& out) const;
  void add_timers(base::Time now, base::Bounds& out) const;

 private:
  void to_membership(membership::Event event, base::Time now, Outbox& out) override;
  void to_reach(const reach::Event& event, base::Time now, Outbox& out) override;
  void to_agreement(Agreement::Event event, base::Time now, Outbox& out) override;
  reach::Answered answered(const std::string& address, const base::PeerId& peer, base::Time now,
                           Outbox& out) override;
  void end(Finished finished, base::Time now, Outbox& out) override;

  void add_members(Status& status, base::Time now) const;

  // Each does what a part asks for.
  void take(membership::Outbox& actions, base::Time now, Outbox& out);
  void take(reach::Outbox& actions, base::Time now, Outbox& out);
  void take(Agreement::Outbox& actions, base::Time now, Outbox& out);
  void note_exchange(const exchange::Committed& made, base::Time now, Outbox& out);
  void take(Outcome& outcome, base::Time now, Outbox& out);
  void expire_membership(base::Time now, Outbox& out);
  void expire_reach(base::Time now, Outbox& out);
  void expire_agreement(base::Time now, Outbox& out);
  void neighbour_up(const membership::NeighbourUp& up, base::Time now, Outbox& out);
  /// Where others reach this peer: its own addresses, and the one that reach tells.
  [[nodiscard]] std::vector<std::string> addresses_with(const std::string& outer) const;
  template <class Visit>
  void visit_timers(const Visit& visit) const;

  KnownAddresses known_;
  const Config config_;
  std::vector<std::string> addresses_;  ///< this machine's own, without the outer one
  membership::Core membership_;
  Agreement agreement_;
  reach::Core reach_;
  Neighbours neighbours_;
  Links links_;
  Training training_;
  Saving saving_;
  Lifecycle lifecycle_;
};

}  // namespace starling::peer
