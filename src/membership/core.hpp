// Membership of one peer: who is in the swarm, whom this peer is linked with, who is gone.
//
// Deterministic: time and random numbers are handed in, everything else comes as events and leaves
// as actions. It composes two machines, the overlay and the detector, and carries what one of them
// says to the other.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/bound.hpp"
#include "base/rng.hpp"
#include "base/time.hpp"
#include "membership/config.hpp"
#include "membership/detector/detector.hpp"
#include "membership/event.hpp"
#include "membership/member_table.hpp"
#include "membership/overlay/overlay.hpp"
#include "membership/progress.hpp"
#include "membership/signer.hpp"

namespace starling::membership {

/// A neighbour as others see it.
struct NeighbourInfo {
  base::PeerId peer;
  base::LinkId link;
  std::optional<base::Duration> round_trip;  ///< smoothed; nothing before the first echo
  base::Duration silence{0};                 ///< since something was heard
};

/// One thread at a time. Time never decreases. Call expire() once at the start (it dials), then
/// whenever next_deadline() has come; next_deadline() may change with every call.
class Core {
 public:
  /// `self`: this peer's record with the addresses at which others reach it; it starts alive, and
  /// is signed here. `signer` outlives this.
  Core(Config config, wire::MemberRecord self, Signer& signer, base::Rng rng);

  void handle(Event event, base::Time now, Outbox& out);
  void expire(base::Time now, Outbox& out);
  [[nodiscard]] std::optional<base::Time> next_deadline() const;

  /// This peer's counter and what it reports; `links` is filled in. Sent with the heartbeats. If
  /// `trains` turns false, an expire() becomes due at once, so that the others hear of it.
  void set_own_progress(const wire::Progress& own, bool trains, base::Time now);
  /// Counters of all peers; observe() may be called on it at any time.
  [[nodiscard]] ProgressTable& progress() noexcept { return detector_.progress(); }
  [[nodiscard]] const ProgressTable& progress() const noexcept { return detector_.progress(); }

  /// All members in PeerId order, this peer included.
  [[nodiscard]] std::vector<wire::MemberRecord> members() const;
  /// In order of peer id.
  [[nodiscard]] std::vector<NeighbourInfo> neighbours(base::Time now) const;
  /// Where to look for the swarm after a restart: at most kRememberedMax addresses of members, of
  /// those that are alive first. Each peer names others, so that few can be gone for all.
  [[nodiscard]] std::vector<std::string> addresses_of_others() const;
  [[nodiscard]] const wire::MemberRecord& self() const { return table().self(); }
  [[nodiscard]] const MemberTable& table() const noexcept { return detector_.table(); }
  /// Why a member that is not alive was lost; none where nobody told.
  [[nodiscard]] wire::DeathReason death_reason_of(const base::PeerId& peer) const;

  /// Whether any member counts as alive that may exchange with this peer, or does.
  [[nodiscard]] bool may_find_neighbours() const { return overlay_.candidates().any(); }
  /// From now on this relay's heartbeats are those of the run that it has found. No link is ready.
  void set_heartbeat(base::Duration heartbeat) { detector_.set_heartbeat(heartbeat); }
  /// Whether a dial has no outcome yet.
  [[nodiscard]] bool is_dialing() const { return overlay_.is_dialing(); }

  /// Everything that can grow or waits: nothing is above its limit between two calls. Cheap, and a
  /// look at all that waits.
  void add_bounds(base::Bounds& out) const;
  void add_timers(base::Time now, base::Bounds& out) const;

 private:
  Core(base::Rng rng, const Config& config, wire::MemberRecord&& self, Signer& signer);

  void begin(base::Time now, Outbox& out);
  void finish(base::Time now, Outbox& out);
  template <class E>
  void give(E event, base::Time now, Outbox& out);
  void to_detector(const DetectorEvent& event, base::Time now, Outbox& out);
  void to_overlay(const OverlayEvent& event, base::Time now, Outbox& out);
  template <class Actions>
  void route(Actions& actions, base::Time now, Outbox& out);

  base::Rng rng_;
  Detector detector_;
  Overlay overlay_;
  std::optional<base::Time> deadline_;
  base::Time now_{};
  base::Time late_until_{};  ///< time up to which timers are known to be late
  bool left_ = false;
};

}  // namespace starling::membership
