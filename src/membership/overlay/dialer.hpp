// Whom may be dialed when: one dial an address at a time, jittered exponential back-off, not at
// an address that has led to oneself. It decides nothing about who is wanted; that is the core's.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
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

/// In place of an address, of a member that can be dialed at none but may be linked by others'
/// help.
[[nodiscard]] inline std::string name_of(const base::PeerId& peer) { return peer.hex(); }

class Dialer {
 public:
  /// At most kJoinMax of `join` are used, in random order.
  Dialer(std::vector<std::string> join, base::Rng rng);

  /// Starts a dial of the member's address at which the fewest dials of it have failed since one
  /// was answered, in the order of its record, then of the configured one it was found at. So one
  /// that never worked comes last where another does. One at which another peer has answered is
  /// that peer's: it is not dialed for this member for kTakenMemory, or until its record is a newer
  /// one. Nothing where it is not due, is being dialed, has no usable address, or too many dials
  /// are under way.
  [[nodiscard]] std::optional<std::string> dial(const wire::MemberRecord& member, base::Time now) {
    return dial(member, Purpose::wanted, now);
  }
  /// The same for a member that is dead, as far as is known: one of revivals().
  [[nodiscard]] std::optional<std::string> revive(const wire::MemberRecord& member,
                                                  base::Time now) {
    return dial(member, Purpose::revival, now);
  }

  /// Whether dial_join() would find an address that is due.
  [[nodiscard]] bool join_due(bool lonely, base::Time now) const;
  /// Whether nothing can be learnt at an address, since a member has it. `holder` is kept for the
  /// next time that it is asked: who had it.
  using IsKnown =
      std::function<bool(const std::string& address, std::optional<base::PeerId>& holder)>;
  /// Starts a dial of a configured address that is due and not known; of a known one it thinks
  /// again after kRevivalMin. An address at which a peer was found is due only if `lonely`.
  [[nodiscard]] std::optional<std::string> dial_join(bool lonely, const IsKnown& is_known,
                                                     base::Time now);

  /// Starts a dial of an address that was heard of, once; false where that cannot be now, or
  /// kFoundDialsMax are under way.
  [[nodiscard]] bool dial_found(const std::string& address, base::Time now);

  /// Whether the member has an address at which it may be as far as is known: no dial of it has
  /// failed there since one was answered, and nobody else has answered.
  [[nodiscard]] bool may_be_elsewhere(const wire::MemberRecord& member, base::Time now) const;

  /// Outcomes of a dial. `taken`: where it was for another peer, for so long the address is that of
  /// who answered. failed() returns whether it was under way. `own`: it led to this peer
  /// itself. `slow`: nothing depends on it, the next attempt can wait for kRevivalMin and more.
  void answered(const std::string& address, const base::PeerId& peer, base::Time now,
                base::Duration taken = kTakenMemory);
  bool failed(const std::string& address, bool own, bool slow, base::Time now);
  /// Dials without an outcome for kDialTimeout.
  [[nodiscard]] std::vector<std::string> overdue(base::Time now) const;
  /// This peer stood still for so long: all dials under way get as much more time, and that they
  /// fail says nothing.
  void extend(base::Duration pause);
  [[nodiscard]] bool stood_still(const std::string& address) const;

  /// Dial this member no earlier than after about this pause.
  void postpone(const base::PeerId& peer, base::Duration pause, base::Time now);
  /// For all of this pause dial neither this member nor a configured address at which it was found.
  void block_for(const base::PeerId& peer, base::Duration pause, base::Time now);
  /// This member has left: who lives at a configured address now, at which it was found, is to be
  /// found out.
  void forget_found(const base::PeerId& peer, base::Time now);
  /// Dial this member at once if it is wanted, and start its back-off anew.
  void hurry(const base::PeerId& peer, base::Time now);

  /// Whom a dial under way is for; nothing: unknown as yet, or no such dial.
  [[nodiscard]] std::optional<base::PeerId> target(const std::string& address) const;
  [[nodiscard]] bool is_dialing(const base::PeerId& peer) const;
  /// Whether any is under way.
  [[nodiscard]] bool is_dialing() const { return !dials_.empty(); }
  /// Dials that were started because somebody was wanted: all but those of dial_found() and
  /// revivals().
  [[nodiscard]] std::size_t dialing() const { return count(Purpose::wanted); }
  /// Dials of members that were held dead when they began. Each may take kDialTimeout, so they
  /// count apart: many dead members would keep all others from being dialed.
  [[nodiscard]] std::size_t revivals() const { return count(Purpose::revival); }
  /// When the member is due; the epoch where it was never dialed.
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
  /// The next time after `now` at which a configured address or an outcome is due.
  [[nodiscard]] std::optional<base::Time> next_due(bool lonely, base::Time now) const;

  void add_bounds(base::Bounds& out) const;
  void add_timers(base::Time now, base::Bounds& out) const;

 private:
  /// An address of a member, of which there is something to say.
  struct Tried {
    std::string address;
    int failures = 0;          ///< since it was answered, at most kFailuresCounted
    base::Time taken_until{};  ///< another peer is there
  };
  struct Pace {
    base::Duration backoff{0};
    base::Time not_before{};
    std::uint64_t incarnation = 0;  ///< of the record that was dialed last
    std::vector<Tried> tried{};     ///< at most kTriedMax
  };
  struct Join {
    std::string address;
    Pace pace;
    std::optional<base::PeerId> found;
    std::optional<base::PeerId> holder;  ///< member that was found to have it
  };
  /// The purpose of a dial: somebody is wanted, it is dial_found()'s, or a dead member's.
  enum class Purpose : std::uint8_t { wanted, found, revival };
  struct Dialing {
    std::optional<base::PeerId> target;
    base::Time expires;
    Purpose purpose = Purpose::wanted;
    bool stood_still = false;
  };

  /// Until when an address counts as this peer's own; the epoch where it does not.
  [[nodiscard]] base::Time own_until(const std::string& address) const;
  [[nodiscard]] bool usable(const std::string& address, base::Time now) const;
  [[nodiscard]] std::size_t count(Purpose purpose) const;
  [[nodiscard]] std::optional<std::string> dial(const wire::MemberRecord& member, Purpose purpose,
                                                base::Time now);
  void start(const std::string& address, std::optional<base::PeerId> target, Purpose purpose,
             base::Time now);
  /// Those of its record, and configured ones at which it was found.
  [[nodiscard]] std::vector<std::string> addresses_of(const wire::MemberRecord& member) const;
  /// Our knowledge of a member's address, if anything.
  [[nodiscard]] const Tried* tried(const base::PeerId& peer, const std::string& address) const;
  Tried& note_tried(const base::PeerId& peer, const std::string& address, base::Time now);
  void forget_outdated(const wire::MemberRecord& member, const std::vector<std::string>& addresses);
  void back_off(const base::PeerId& peer, bool slow, base::Time now);
  [[nodiscard]] base::Time after_back_off(Pace& pace, bool slow, base::Time now);
  void set_due(const base::PeerId& peer, Pace& pace, base::Time due);
  void forget_idle(base::Time now);

  static constexpr base::PeerId kLast = [] {
    base::PeerId id;
    id.bytes.fill(0xff);
    return id;
  }();

  base::Rng rng_;
  std::vector<Join> join_;
  std::map<base::PeerId, Pace> paces_;
  std::set<std::pair<base::Time, base::PeerId>> by_due_;  ///< due times in paces_
  std::map<std::string, Dialing> dials_;
  std::size_t tried_most_ = 0;             ///< addresses that were kept for one member
  std::map<std::string, base::Time> own_;  ///< addresses that led here, and until when they count
};

}  // namespace starling::membership
