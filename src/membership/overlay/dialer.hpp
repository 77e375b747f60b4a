// Whom may be dialed when: one dial an address at a time, jittered exponential back-off, not at
// an address that has led to oneself. It decides nothing about who is wanted; that is the core's.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/bound.hpp"
#include "base/peer_id.hpp"
#include "base/rng.hpp"
#include "base/time.hpp"
#include "membership/limits.hpp"
#include "membership/overlay/dial_history.hpp"
#include "wire/messages.hpp"

namespace starling::membership {

/// In place of an address, of a member that can be dialed at none but may be linked by others'
/// help.
[[nodiscard]] inline std::string name_of(const base::PeerId& peer) { return peer.hex(); }

/// Somebody is wanted; an address was heard of; or the member is dead, as far as is known. Each
/// dial of a dead member may take kDialTimeout, so they count apart: many dead members would keep
/// all others from being dialed.
enum class DialPurpose : std::uint8_t { wanted, found, revival };

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
  [[nodiscard]] std::optional<std::string> dial(const wire::MemberRecord& member, base::Time now,
                                                DialPurpose purpose = DialPurpose::wanted);

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
  [[nodiscard]] DialHistory& history() noexcept { return history_; }
  [[nodiscard]] const DialHistory& history() const noexcept { return history_; }

  /// Whom a dial under way is for; nothing: unknown as yet, or no such dial.
  [[nodiscard]] std::optional<base::PeerId> target(const std::string& address) const;
  [[nodiscard]] bool is_dialing(const base::PeerId& peer) const;
  /// Whether any is under way.
  [[nodiscard]] bool is_dialing() const { return !dials_.empty(); }
  /// Dials of this purpose under way.
  [[nodiscard]] std::size_t count(DialPurpose purpose) const;
  /// The next time after `now` at which a configured address or an outcome is due.
  [[nodiscard]] std::optional<base::Time> next_due(bool lonely, base::Time now) const;

  void add_bounds(base::Bounds& out) const;
  void add_timers(base::Time now, base::Bounds& out) const;

 private:
  struct Join {
    std::string address;
    Pace pace;
    std::optional<base::PeerId> found;
    std::optional<base::PeerId> holder;  ///< member that was found to have it
  };
  struct Dialing {
    std::optional<base::PeerId> target;
    base::Time expires;
    DialPurpose purpose = DialPurpose::wanted;
    bool stood_still = false;
  };

  /// Until when an address counts as this peer's own; the epoch where it does not.
  [[nodiscard]] base::Time own_until(const std::string& address) const;
  [[nodiscard]] bool usable(const std::string& address, base::Time now) const;
  void start(const std::string& address, std::optional<base::PeerId> target, DialPurpose purpose,
             base::Time now);
  /// Those of its record, and configured ones at which it was found.
  [[nodiscard]] std::vector<std::string> addresses_of(const wire::MemberRecord& member) const;

  base::Rng rng_;
  std::vector<Join> join_;
  DialHistory history_;
  std::map<std::string, Dialing> dials_;
  std::map<std::string, base::Time> own_;  ///< addresses that led here, and until when they count
};

}  // namespace starling::membership
