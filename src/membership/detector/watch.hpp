// The links as the detector watches them, and how far it trusts what it sees. Others may ask which
// of them are silent.
#pragma once

#include <map>
#include <optional>

#include "base/peer_id.hpp"
#include "base/strong.hpp"
#include "base/time.hpp"
#include "membership/detector/beat_clock.hpp"
#include "membership/detector/local_health.hpp"
#include "membership/detector/reconciler.hpp"
#include "membership/role.hpp"

namespace starling::membership {

struct Watched {
  base::PeerId peer;
  Role role = Role::contact;
  BeatClock clock;
  Comparison comparison{};

  /// Whether rumours go over this link.
  [[nodiscard]] bool speaks() const { return role != Role::contact; }
};

class Watch {
 public:
  explicit Watch(base::Duration heartbeat) : heartbeat_(heartbeat) {}

  [[nodiscard]] base::Duration heartbeat() const noexcept { return heartbeat_; }
  /// No link is watched yet.
  void set_heartbeat(base::Duration heartbeat);

  void add(base::LinkId id, const base::PeerId& peer, base::Time now);
  void erase(base::LinkId id) { links_.erase(id); }
  /// Null where there is no such link.
  [[nodiscard]] Watched* find(base::LinkId id);
  [[nodiscard]] const Watched* find(base::LinkId id) const;
  [[nodiscard]] auto begin() { return links_.begin(); }
  [[nodiscard]] auto end() { return links_.end(); }
  [[nodiscard]] auto begin() const { return links_.begin(); }
  [[nodiscard]] auto end() const { return links_.end(); }

  /// When a neighbour has been silent for so long that it is suspect.
  [[nodiscard]] base::Time suspect_at(const Watched& link) const;
  [[nodiscard]] bool is_silent(base::LinkId id, base::Time now) const;
  /// The unit of this peer's timeouts: longer where it trusts itself less.
  [[nodiscard]] base::Duration unit() const { return health_.factor() * heartbeat_; }

  /// Something spoke against this peer's own condition.
  void doubt() noexcept { health_.worse(); }
  /// Its timers ran so much too late.
  void note_late(base::Duration late, base::Time now);
  /// It sent a heartbeat: its condition gets better, once an interval.
  void note_beat(base::Time now);
  /// Silence until now says nothing.
  void restart(base::Time now);

  /// News that cannot wait: neighbours get their next beats as soon as may be.
  void hurry(base::Time now);
  /// The earliest beat of a neighbour. Silence is looked at with it, too.
  [[nodiscard]] std::optional<base::Time> next_beat() const;

 private:
  base::Duration heartbeat_;
  std::map<base::LinkId, Watched> links_;
  LocalHealth health_;
  base::Time better_at_{};  ///< earliest time at which the local health gets better
};

}  // namespace starling::membership
