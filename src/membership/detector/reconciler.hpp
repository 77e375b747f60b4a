// Makes the member tables of two ends equal (anti-entropy): what rumours missed. The hash of a
// table is in each heartbeat; where it differs for a while, the hashes of its buckets are sent,
// answered by the entries of those that differ, and those by the records that one end lacks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/strong.hpp"
#include "base/time.hpp"
#include "membership/detector/event.hpp"
#include "membership/member_table.hpp"

namespace starling::membership {

/// How far the two ends of one link are with that.
struct Comparison {
  int mismatches = 0;    ///< hashes that differed, in a row
  base::Time next_at{};  ///< earliest time of the next comparison
  base::Duration pause{0};
  base::Time asked_since{};  ///< start of the interval in which `asked` counts
  std::size_t asked = 0;     ///< number of records that the other end asked for
};

class Reconciler {
 public:
  /// `table` outlives this.
  explicit Reconciler(const MemberTable& table) : table_(table) {}

  /// Begins to compare.
  void begin(base::LinkId id, DetectorOutbox& out) const;
  /// The other end's table has this hash; begins to compare where it differs for long.
  void note_hash(base::LinkId id, Comparison& link, std::uint64_t hash, base::Time now,
                 DetectorOutbox& out) const;
  /// Answers.
  void take(base::LinkId id, Comparison& link, const wire::Reconcile& message, base::Time now,
            DetectorOutbox& out) const;

 private:
  using Records = std::vector<const wire::MemberRecord*>;

  void send_entries(base::LinkId id, std::uint8_t bits, const std::vector<std::uint16_t>& buckets,
                    DetectorOutbox& out) const;
  void settle_entries(base::LinkId id, Comparison& link, const wire::Reconcile& message,
                      base::Time now, DetectorOutbox& out) const;
  static void send_records(base::LinkId id, Comparison& link, Records records, base::Time now,
                           DetectorOutbox& out);

  const MemberTable& table_;
};

}  // namespace starling::membership
