// The dials of members: when each may be dialed again, and at which of its addresses it is worth
// it.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/bound.hpp"
#include "base/peer_id.hpp"
#include "base/rng.hpp"
#include "base/time.hpp"
#include "membership/limits.hpp"
#include "wire/messages.hpp"

namespace starling::membership {

/// Jittered exponential back-off.
struct Pace {
  base::Duration backoff{0};
  base::Time not_before{};

  /// A dial has failed: the next time. `slow`: nothing depends on it.
  [[nodiscard]] base::Time back_off(bool slow, base::Time now, base::Rng& rng);
};

/// With as many members as the member table may hold, those that wait for nothing are dropped.
class DialHistory {
 public:
  /// When the member is due; the epoch: it was never dialed.
  [[nodiscard]] base::Time due(const base::PeerId& peer) const;
  /// Members that are due after `now`, the earliest first.
  [[nodiscard]] auto waiting(base::Time now) const {
    using Iterator = decltype(by_due_)::const_iterator;
    struct Range {  // clang 14 cannot read std::ranges::subrange
      Iterator first, last;
      [[nodiscard]] Iterator begin() const { return first; }
      [[nodiscard]] Iterator end() const { return last; }
    };
    return Range{by_due_.upper_bound({now, kLast}), by_due_.end()};
  }
  /// Dials of it that have failed at this address since one was answered.
  [[nodiscard]] int failures(const base::PeerId& peer, const std::string& address) const;
  /// Another peer has answered there lately.
  [[nodiscard]] bool is_taken(const base::PeerId& peer, const std::string& address,
                              base::Time now) const;

  /// Whether the member is due. If so, its record counts as the one that was dialed last.
  [[nodiscard]] bool begin(const wire::MemberRecord& member, base::Time now);
  void answered(const base::PeerId& peer, const std::string& address, base::Time now);
  void failed(const base::PeerId& peer, const std::string& address, base::Time now);
  void taken(const base::PeerId& peer, const std::string& address, base::Time until,
             base::Time now);
  void back_off(const base::PeerId& peer, bool slow, base::Time now, base::Rng& rng);
  /// It is due at that time at the earliest.
  void wait_until(const base::PeerId& peer, base::Time time, base::Time now);
  /// It is due at once, and its back-off starts anew.
  void hurry(const base::PeerId& peer, base::Time now);
  /// Keeps only these addresses. If its record is a newer one, none of them is taken any more.
  void forget_outdated(const wire::MemberRecord& member, const std::vector<std::string>& addresses);

  void add_bounds(base::Bounds& out) const;
  void add_timers(base::Time now, base::Bounds& out) const;

 private:
  /// An address of a member, of which there is something to say.
  struct Tried {
    std::string address;
    int failures = 0;          ///< since it was answered, at most kFailuresCounted
    base::Time taken_until{};  ///< another peer is there
  };
  struct Row {
    Pace pace;
    std::uint64_t incarnation = 0;  ///< of the record that was dialed last
    std::vector<Tried> tried{};     ///< at most kTriedMax
  };

  [[nodiscard]] Row& row(const base::PeerId& peer, base::Time now);
  [[nodiscard]] const Tried* find(const base::PeerId& peer, const std::string& address) const;
  [[nodiscard]] Tried& note(const base::PeerId& peer, const std::string& address, base::Time now);
  void set_due(const base::PeerId& peer, Pace& pace, base::Time due);

  static constexpr base::PeerId kLast = [] {
    base::PeerId id;
    id.bytes.fill(0xff);
    return id;
  }();

  std::map<base::PeerId, Row> rows_;
  std::set<std::pair<base::Time, base::PeerId>> by_due_;  ///< due times in rows_
  std::size_t tried_most_ = 0;  ///< addresses that were kept for one member
};

}  // namespace starling::membership
