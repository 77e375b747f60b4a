// This peer's own record: each version is signed here and told to all. What others conclude of this
// peer is refuted by a newer one.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/bound.hpp"
#include "base/rng.hpp"
#include "base/time.hpp"
#include "membership/detector/event.hpp"
#include "membership/detector/key_conflict.hpp"
#include "membership/detector/rumours.hpp"
#include "membership/member_table.hpp"
#include "membership/signer.hpp"

namespace starling::membership {

class OwnRecord {
 public:
  /// All outlive this.
  OwnRecord(MemberTable& table, Signer& signer, Rumours& rumours, base::Rng& rng)
      : table_(table), signer_(signer), rumours_(rumours), rng_(rng) {}

  void change(const SpeedMeasured& event);
  void change(const Moved& event);
  /// The last version; nothing is said after it.
  void leave();

  /// Others hold it suspect or dead, at this incarnation.
  void refute(std::uint64_t incarnation, std::string_view taken_for, base::Time now,
              DetectorOutbox& out);
  /// A genuine record of this peer that is newer than its own: a former life of it, or another
  /// process that has its key and will answer (KeyConflict).
  void met(const wire::MemberRecord& record, base::Time now, DetectorOutbox& out);
  /// Whether the other process has told of this incarnation, and it is not overruled yet.
  [[nodiscard]] bool is_contested(std::uint64_t incarnation) const noexcept {
    return conflict_.is_open(incarnation);
  }

  void overrule_if_due(base::Time now, DetectorOutbox& out);
  [[nodiscard]] std::optional<base::Time> next_due() const noexcept { return conflict_.due(); }
  void add_timers(base::Time now, base::Bounds& out) const { conflict_.add_timers(now, out); }

 private:
  /// Signs a version and tells it; false if it is not newer.
  [[nodiscard]] bool announce(wire::MemberRecord own);
  /// The present record with a change, unless this peer has left.
  void announce_change(wire::MemberRecord own);
  /// Announces a higher incarnation than this one; false where that is not newer.
  [[nodiscard]] bool raise_above(std::uint64_t incarnation, base::Time now);

  MemberTable& table_;
  Signer& signer_;
  Rumours& rumours_;
  base::Rng& rng_;
  KeyConflict conflict_;
  bool left_ = false;
};

}  // namespace starling::membership
