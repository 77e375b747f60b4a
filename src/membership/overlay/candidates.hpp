// Other members as neighbours: who may be one, and what they tell of themselves that makes one
// better than another.
#pragma once

#include <cstdint>
#include <string>

#include "base/peer_id.hpp"
#include "base/time.hpp"
#include "membership/config.hpp"
#include "membership/member_table.hpp"
#include "membership/overlay/standings.hpp"
#include "membership/progress.hpp"

namespace starling::membership {

class Candidates {
 public:
  /// All but `config` outlive this.
  Candidates(const Config& config, const MemberTable& table, const ProgressTable& progress,
             const Standings& standings)
      : hub_(config.hub),
        degree_(config.degree),
        table_(table),
        progress_(progress),
        standings_(standings) {}

  [[nodiscard]] const wire::MemberRecord& self() const { return table_.self(); }
  [[nodiscard]] bool is_relay() const { return !self().has_replica; }

  /// A member held alive, or whose return is known and not believed yet: a neighbour as good as
  /// others.
  [[nodiscard]] bool is_there(const wire::MemberRecord& record) const;
  /// Whether the two may be neighbours: one of them is the hub, where there is one.
  [[nodiscard]] bool fits(const wire::MemberRecord& record) const;
  /// Another one, and neither end has a reason against it.
  [[nodiscard]] bool may_be_neighbour(const wire::MemberRecord& record) const;
  /// Whether any member counts as alive that may exchange with this peer, or does.
  [[nodiscard]] bool any() const;

  /// Nothing was heard of its counter for long: it may be gone without anybody's notice.
  [[nodiscard]] bool lacks_evidence(const base::PeerId& peer, base::Time now) const;
  /// Whether it may be in another part of the overlay: its counter stands still, while others move.
  [[nodiscard]] bool seems_apart(const base::PeerId& peer, base::Time now) const;
  /// Whether the run goes on, as far as counters tell.
  [[nodiscard]] bool counters_move(base::Time now) const { return progress_.rate(now) > 0; }
  /// How many neighbours it has, as it told last; 0: it has not.
  [[nodiscard]] std::uint32_t links_told(const base::PeerId& peer) const;
  /// Tells that it has as many neighbours as it takes.
  [[nodiscard]] bool is_full(const base::PeerId& peer) const;

 private:
  std::string hub_;
  std::uint32_t degree_;
  const MemberTable& table_;
  const ProgressTable& progress_;
  const Standings& standings_;
};

}  // namespace starling::membership
