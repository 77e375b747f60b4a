// Which members are held alive, suspect and dead: accusations, verdicts, and whose return is
// believed. After SWIM (Das, Gupta, Motivala, DSN 2002) and Lifeguard (Dadgar, Phillips, Currey,
// DSN 2018).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/bound.hpp"
#include "base/peer_id.hpp"
#include "base/time.hpp"
#include "membership/detector/event.hpp"
#include "membership/detector/rumours.hpp"
#include "membership/detector/watch.hpp"
#include "membership/member_table.hpp"
#include "membership/progress.hpp"

namespace starling::membership {

class Verdicts {
 public:
  /// All outlive this. `degree`: links that a member has, where it has not told how many.
  Verdicts(std::uint32_t degree, MemberTable& table, ProgressTable& progress, Rumours& rumours,
           Watch& watch)
      : degree_(degree), table_(table), progress_(progress), rumours_(rumours), watch_(watch) {}

  /// A genuine record of another peer that is newer than the one that is held, told by `teller` on
  /// this link.
  void believe(wire::MemberRecord record, const base::PeerId& teller, base::LinkId from,
               base::Time now, DetectorOutbox& out);
  /// Somebody's claim that this member is suspect or dead, at the incarnation that is held.
  void hear(const wire::Claim& claim, const wire::MemberRecord& record, base::LinkId from,
            base::Time now, DetectorOutbox& out);
  /// This peer accuses it itself.
  void accuse(const base::PeerId& peer, wire::DeathReason reason, base::Time now,
              DetectorOutbox& out);
  /// Whom this peer suspects, in a gossip for `peer`: it may never have heard of it.
  [[nodiscard]] wire::Gossip open_for(const base::PeerId& peer) const;

  /// Verdicts that are due, and returns that are to be believed now.
  void expire(base::Time now, DetectorOutbox& out);
  [[nodiscard]] std::optional<base::Time> next_due() const;
  /// This peer stood still: all suspicions end this much later.
  void extend(base::Duration pause);

  void add_timers(base::Time now, base::Bounds& out) const;

 private:
  void accuse(const wire::MemberRecord& record, std::uint64_t by, wire::DeathReason reason,
              base::LinkId from, base::Time now, DetectorOutbox& out);
  /// The table has a newer record.
  void changed(const wire::MemberRecord& record, bool was_alive, base::LinkId from, base::Time now,
               DetectorOutbox& out);
  /// Members whose judgement is due, in order of id.
  [[nodiscard]] std::vector<base::PeerId> due(base::Time now) const;
  [[nodiscard]] bool apply(const wire::MemberRecord& record);
  [[nodiscard]] bool holds_back(const wire::MemberRecord& record, base::Time now);
  /// Its suspicion has ended: it is dead.
  void condemn(const base::PeerId& id, base::Time now, DetectorOutbox& out);
  void note_death(const wire::MemberRecord& record, base::Time now);

  std::uint32_t degree_;
  MemberTable& table_;
  ProgressTable& progress_;
  Rumours& rumours_;
  Watch& watch_;
};

}  // namespace starling::membership
