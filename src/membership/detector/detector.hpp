// A peer's knowledge of the members of its swarm, and how it finds out who is gone: records and
// claims as rumours, heartbeats, suspicion and refutation, anti-entropy. After SWIM (Das, Gupta,
// Motivala, DSN 2002), with neighbours' heartbeats in place of random probes, and Lifeguard
// (Dadgar, Phillips, Currey, DSN 2018).
//
// A deterministic machine: events in, actions out. It alone changes the member table.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "base/bound.hpp"
#include "base/rng.hpp"
#include "base/time.hpp"
#include "membership/config.hpp"
#include "membership/detector/event.hpp"
#include "membership/detector/own_record.hpp"
#include "membership/detector/reconciler.hpp"
#include "membership/detector/rumours.hpp"
#include "membership/detector/verdicts.hpp"
#include "membership/detector/watch.hpp"
#include "membership/member_table.hpp"
#include "membership/progress.hpp"
#include "membership/signer.hpp"

namespace starling::membership {

/// One thread at a time. Time never decreases. After each event and each expire(), and what the
/// overlay says to them, call tell() once.
class Detector {
 public:
  /// `self`: this peer's record; it starts alive, and is signed here. `signer` and `rng` outlive
  /// this.
  Detector(const Config& config, wire::MemberRecord self, Signer& signer, base::Rng& rng);
  Detector(const Detector&) = delete;
  Detector& operator=(const Detector&) = delete;

  void handle(const DetectorEvent& event, base::Time now, DetectorOutbox& out);
  /// Tells the others what is new, and this peer that members have changed.
  void tell(DetectorOutbox& out);
  void expire(base::Time now, DetectorOutbox& out);
  [[nodiscard]] std::optional<base::Time> next_deadline() const;

  /// As Core's. Whether beats were hurried by it.
  [[nodiscard]] bool set_own_progress(const wire::Progress& own, bool trains, base::Time now);
  void set_heartbeat(base::Duration heartbeat);

  [[nodiscard]] const MemberTable& table() const noexcept { return table_; }
  [[nodiscard]] ProgressTable& progress() noexcept { return progress_; }
  [[nodiscard]] const ProgressTable& progress() const noexcept { return progress_; }
  [[nodiscard]] const Watch& watch() const noexcept { return watch_; }

  void add_bounds(base::Bounds& out) const;
  void add_timers(base::Time now, base::Bounds& out) const;

 private:
  void on(const LinkMet& event, base::Time now, DetectorOutbox& out);
  void on(const RoleSet& event, base::Time now, DetectorOutbox& out);
  void on(const LinkEnded& event, base::Time now, DetectorOutbox& out);
  void on(const Accuse& event, base::Time now, DetectorOutbox& out);
  void on(const RanLate& event, base::Time now, DetectorOutbox& out);
  void on(const StoodStill& event, base::Time now, DetectorOutbox& out);
  void on(const Received& event, base::Time now, DetectorOutbox& out);
  void on(const Heard& event, base::Time now, DetectorOutbox& out);
  void on(const SpeedMeasured& event, base::Time now, DetectorOutbox& out);
  void on(const Moved& event, base::Time now, DetectorOutbox& out);
  void on(const Leave& event, base::Time now, DetectorOutbox& out);

  void on_gossip(base::LinkId id, const wire::Gossip& gossip, base::Time now, DetectorOutbox& out);
  void on_claim(const wire::Claim& claim, base::LinkId from, base::Time now, DetectorOutbox& out);
  void on_beat(base::LinkId id, const wire::Heartbeat& beat, base::Time now, DetectorOutbox& out);
  [[nodiscard]] bool admit(const wire::MemberRecord& record, base::LinkId from, base::Time now,
                           DetectorOutbox& out);
  void send_beat(base::LinkId id, Watched& link, base::Time now, DetectorOutbox& out);
  void check_neighbours(base::Time now, DetectorOutbox& out);

  /// Something that waits: when it is due, and what is done then.
  struct Timer {
    std::optional<base::Time> (*due)(const Detector& detector);
    void (*run)(Detector& detector, base::Time now, DetectorOutbox& out);
  };
  static const std::array<Timer, 3> kTimers;

  Signer& signer_;
  base::Rng& rng_;
  MemberTable table_;
  ProgressTable progress_;
  Watch watch_;
  Rumours rumours_;
  Reconciler reconciler_;
  OwnRecord own_;
  Verdicts verdicts_;
  std::uint64_t reported_version_ = 0;  ///< alive_version at the last MembersChanged
  bool left_ = false;
  bool told_overflow_ = false;  ///< whether it was said that a counter found no room
};

}  // namespace starling::membership
