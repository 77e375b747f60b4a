// Whom a peer dials, and when: configured addresses, members that may be neighbours, dead ones,
// probes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/bound.hpp"
#include "base/rng.hpp"
#include "base/time.hpp"
#include "membership/config.hpp"
#include "membership/member_table.hpp"
#include "membership/overlay/candidates.hpp"
#include "membership/overlay/dialer.hpp"
#include "membership/overlay/links.hpp"
#include "membership/overlay/places.hpp"
#include "membership/overlay/seek_pace.hpp"
#include "membership/overlay/standings.hpp"

namespace starling::membership {

class Seeker {
 public:
  /// All but `config` outlive this.
  Seeker(const Config& config, const MemberTable& table, const Links& links,
         const Candidates& candidates, const Standings& standings, const Places& places,
         base::Rng& rng);

  /// Dials nobody any more.
  void rest() noexcept { rests_ = true; }
  /// Dials what is due.
  void seek(base::Time now, OverlayOutbox& out);
  /// When to look again, if that is before `latest`; else `latest`.
  [[nodiscard]] base::Time next_due(base::Time now, base::Time latest) const;
  /// Dials an address that was heard of, or not: others hear of it, too.
  void found(const Found& event, base::Time now, OverlayOutbox& out);
  /// Outcomes of dials. They may show that whoever was dialed is gone.
  void answered(const LinkReady& event, base::Time now, OverlayOutbox& out);
  void failed(const DialFailed& event, base::Time now, OverlayOutbox& out);
  /// Dials without an outcome for too long have failed.
  void end_overdue(base::Time now, OverlayOutbox& out);
  /// Whether a dial is under way, or a member is due, that may have a place.
  [[nodiscard]] bool has_others(base::Time now) const;

  [[nodiscard]] Dialer& dialer() noexcept { return dialer_; }
  [[nodiscard]] const Dialer& dialer() const noexcept { return dialer_; }
  [[nodiscard]] SeekPace& pace() noexcept { return pace_; }

  void add_timers(base::Time now, base::Bounds& out) const;

 private:
  void seek_relays(base::Time now, OverlayOutbox& out);
  void seek_members(bool alive, std::size_t wanted, base::Time now, OverlayOutbox& out);
  void dial_joins(base::Time now, OverlayOutbox& out);
  void probe(base::Time now, OverlayOutbox& out);
  void dial(std::string address, OverlayOutbox& out) const;
  [[nodiscard]] bool is_lonely() const { return links_.count(Role::neighbour) == 0; }
  /// Nobody is known to reach this peer, or any of its neighbours.
  [[nodiscard]] bool is_out_of_the_way() const;
  [[nodiscard]] bool is_wanted(const wire::MemberRecord& record, bool alive) const;
  [[nodiscard]] bool may_be_out_of_reach(const wire::MemberRecord& record, base::Time now) const;
  /// Whether it is there, wanted, no relay, and may be dialed now.
  [[nodiscard]] bool is_due(const wire::MemberRecord& record, base::Time now) const;

  std::uint32_t degree_;
  const MemberTable& table_;
  const Links& links_;
  const Candidates& candidates_;
  const Standings& standings_;
  const Places& places_;
  base::Rng& rng_;
  Dialer dialer_;
  SeekPace pace_;
  base::Time probe_at_{};  ///< time of the next probe; the epoch: not decided
  bool rests_ = false;
};

}  // namespace starling::membership
