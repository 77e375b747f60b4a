// The overlay of one peer: whom it dials, which links are neighbour relations, which of two stays.
// After HyParView (Leitao, Pereira, Rodrigues, DSN 2007), without its shuffle: the member table is
// complete, so it serves as the passive view.
//
// A deterministic machine: events in, actions out. It looks at the member table, the counters and
// the silence of links, which the detector alone changes.
#pragma once

#include "base/bound.hpp"
#include "base/rng.hpp"
#include "base/time.hpp"
#include "membership/config.hpp"
#include "membership/overlay/bans.hpp"
#include "membership/overlay/candidates.hpp"
#include "membership/overlay/event.hpp"
#include "membership/overlay/links.hpp"
#include "membership/overlay/places.hpp"
#include "membership/overlay/seeker.hpp"
#include "membership/overlay/standings.hpp"
#include "membership/overlay/strangers.hpp"

namespace starling::membership {

/// One thread at a time. Time never decreases. After each event and each expire(), and what the
/// detector says to them, call seek() once.
class Overlay {
 public:
  /// All but `config` outlive this.
  Overlay(const Config& config, const MemberTable& table, const ProgressTable& progress,
          const Watch& watch, base::Rng& rng);
  Overlay(const Overlay&) = delete;
  Overlay& operator=(const Overlay&) = delete;

  void handle(const OverlayEvent& event, base::Time now, OverlayOutbox& out);
  /// Gives neighbours away that are too many, and dials who is due.
  void seek(base::Time now, OverlayOutbox& out);
  void expire(base::Time now, OverlayOutbox& out);
  /// `latest`, where nothing is due before: what comes later is not looked for.
  [[nodiscard]] base::Time next_deadline(base::Time now, base::Time latest) const;

  [[nodiscard]] const Links& links() const noexcept { return links_; }
  [[nodiscard]] const Candidates& candidates() const noexcept { return candidates_; }
  /// Whether a dial has no outcome yet.
  [[nodiscard]] bool is_dialing() const { return seeker_.dialer().is_dialing(); }

  void add_bounds(base::Bounds& out) const;
  void add_timers(base::Time now, base::Bounds& out) const;

 private:
  void on(const LinkReady& event, base::Time now, OverlayOutbox& out);
  void on(const LinkLost& event, base::Time now, OverlayOutbox& out);
  void on(const DialFailed& event, base::Time now, OverlayOutbox& out);
  void on(const Found& event, base::Time now, OverlayOutbox& out);
  void on(const Received& event, base::Time now, OverlayOutbox& out);
  void on(const Hold& event, base::Time now, OverlayOutbox& out);
  void on(const Stay& event, base::Time now, OverlayOutbox& out);
  void on(const Leave& event, base::Time now, OverlayOutbox& out);
  void on(const Admitted& event, base::Time now, OverlayOutbox& out);
  void on(const EndLink& event, base::Time now, OverlayOutbox& out);
  void on(const MemberBack& event, base::Time now, OverlayOutbox& out);
  void on(const MemberGone& event, base::Time now, OverlayOutbox& out);
  void on(const StoodStill& event, base::Time now, OverlayOutbox& out);

  [[nodiscard]] bool refuses(const LinkReady& event, base::Time now, OverlayOutbox& out);
  void on_neighbour(base::LinkId id, wire::NeighbourKind kind, base::Time now, OverlayOutbox& out);
  void on_request(base::LinkId id, bool urgent, base::Time now, OverlayOutbox& out);
  void on_reject(base::LinkId id, base::Time now, OverlayOutbox& out);
  void make_neighbour(base::LinkId id, OverlayOutbox& out);
  void give_away(base::LinkId id, base::Time now, OverlayOutbox& out);
  void refer(base::LinkId id, const base::PeerId& to, OverlayOutbox& out);
  void ban(const base::PeerId& peer, base::Time now);

  const MemberTable& table_;
  base::Rng& rng_;
  Standings standings_;
  Links links_;
  Candidates candidates_;
  Places places_;
  Seeker seeker_;
  Strangers strangers_;
  Bans bans_;
  bool left_ = false;
};

}  // namespace starling::membership
