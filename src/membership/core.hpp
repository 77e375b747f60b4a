// Membership of one peer: who is in the swarm, whom this peer is linked with, who is gone.
//
// Deterministic: time and random numbers are handed in, everything else comes as events and leaves
// as actions. Overlay: after HyParView (Leitao, Pereira, Rodrigues, DSN 2007), without its shuffle:
// the member table is complete, so it serves as the passive view. Failures: after SWIM (Das,
// Gupta, Motivala, DSN 2002), with neighbours' heartbeats in place of random probes, and Lifeguard
// (Dadgar, Phillips, Currey, DSN 2018).
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/bound.hpp"
#include "base/rng.hpp"
#include "base/time.hpp"
#include "membership/config.hpp"
#include "membership/dialer.hpp"
#include "membership/event.hpp"
#include "membership/failure_detector.hpp"
#include "membership/flap_damper.hpp"
#include "membership/key_conflict.hpp"
#include "membership/limits.hpp"
#include "membership/local_health.hpp"
#include "membership/member_table.hpp"
#include "membership/peers_until.hpp"
#include "membership/progress.hpp"
#include "membership/seek_pace.hpp"
#include "membership/signer.hpp"
#include "membership/suspicions.hpp"

namespace starling::membership {

/// A neighbour as others see it.
struct NeighbourInfo {
  base::PeerId peer;
  base::LinkId link;
  std::optional<base::Duration> round_trip;  ///< smoothed; nothing before the first echo
  base::Duration silence{0};                 ///< since something was heard
};

/// One thread at a time. Time never decreases. Call expire() once at the start (it dials), then
/// whenever next_deadline() has come; next_deadline() may change with every call.
class Core {
 public:
  /// `self`: this peer's record with the addresses at which others reach it; it starts alive, and
  /// is signed here. `signer` outlives this.
  Core(Config config, wire::MemberRecord self, Signer& signer, base::Rng rng);

  void handle(const Event& event, base::Time now, Outbox& out);
  void expire(base::Time now, Outbox& out);
  [[nodiscard]] std::optional<base::Time> next_deadline() const;

  /// This peer's counter and what it reports; `links` is filled in. Sent with the heartbeats. If
  /// `trains` turns false, an expire() becomes due at once, so that the others hear of it.
  void set_own_progress(const wire::Progress& own, bool trains, base::Time now);
  /// Counters of all peers; observe() may be called on it at any time.
  [[nodiscard]] ProgressTable& progress() noexcept { return progress_; }
  [[nodiscard]] const ProgressTable& progress() const noexcept { return progress_; }

  /// All members in PeerId order, this peer included.
  [[nodiscard]] std::vector<wire::MemberRecord> members() const;
  /// In order of peer id.
  [[nodiscard]] std::vector<NeighbourInfo> neighbours(base::Time now) const;
  /// Where to look for the swarm after a restart: at most kRememberedMax addresses of members, of
  /// those that are alive first. Each peer names others, so that few can be gone for all.
  [[nodiscard]] std::vector<std::string> addresses_of_others() const;
  [[nodiscard]] const wire::MemberRecord& self() const { return table_.self(); }
  [[nodiscard]] const MemberTable& table() const noexcept { return table_; }
  /// Why a member that is not alive was lost; none where nobody told.
  [[nodiscard]] wire::DeathReason death_reason_of(const base::PeerId& peer) const;

  /// Whether any member counts as alive that may exchange with this peer, or does.
  [[nodiscard]] bool may_find_neighbours() const;
  /// From now on this relay's heartbeats are those of the run that it has found. No link is ready.
  void set_heartbeat(base::Duration heartbeat);
  /// Whether a dial has no outcome yet.
  [[nodiscard]] bool is_dialing() const { return dialer_.is_dialing(); }

  /// What can grow, and what waits: nothing is above its limit between two calls. Cheap, and a
  /// look at all that waits.
  void add_bounds(base::Bounds& out) const;
  void add_timers(base::Time now, base::Bounds& out) const;

 private:
  static constexpr std::size_t kBeatsKept = 16;

  enum class Role {
    contact,    ///< no neighbours: closed after kContactLife, unless one end asks for that
    requested,  ///< this end asked to be neighbours
    neighbour,
  };

  struct Link {
    base::PeerId peer;
    bool dialed = false;  ///< whether this end dialed it
    std::string address;  ///< address that was dialed; empty: the other end dialed
    base::Time ready;
    Role role = Role::contact;
    base::Time role_ends;  ///< contact and requested: time at which it is closed
    FailureDetector detector;
    base::Time next_beat{};
    base::Time last_beat{};
    std::uint32_t beats = 0;  ///< number of heartbeats sent
    std::array<base::Time, kBeatsKept>
        beat_sent{};  ///< times of sending, by sequence modulo kBeatsKept
    std::uint32_t beat_heard = 0;
    base::Time beat_heard_at{};
    std::optional<base::Duration> round_trip;
    bool relayed = false;   ///< over a circuit
    bool to_relay = false;  ///< the other end has no replica
    bool held = false;      ///< not to be closed as unused
    bool referred = false;  ///< the other end was told of members that may have a place for it
    int mismatches = 0;
    base::Time table_after{};  ///< earliest time of the next comparison of tables
    base::Duration table_pause{0};
    base::Time asked_since{};  ///< start of the interval in which `asked` counts
    std::size_t asked = 0;     ///< number of records that the other end asked for
  };
  using Links = std::map<base::LinkId, Link>;

  /// What is to be told on all links but the one that it came from.
  struct QueuedClaim {
    wire::Claim claim;
    base::LinkId from;
  };

  // core.cpp: events
  void begin(base::Time now, Outbox& out);
  void finish(base::Time now, Outbox& out);
  void on(const LinkReady& event, base::Time now, Outbox& out);
  void on(const LinkLost& event, base::Time now, Outbox& out);
  void on(const DialFailed& event, base::Time now, Outbox& out);
  void on(const Found& event, base::Time now, Outbox& out);
  void on(const Received& event, base::Time now, Outbox& out);
  void on(const Heard& event, base::Time now, Outbox& out);
  void on(const SpeedMeasured& event, base::Time now, Outbox& out);
  void on(const Moved& event, base::Time now, Outbox& out);
  void on(const Hold& event, base::Time now, Outbox& out);
  void on(const Leave& event, base::Time now, Outbox& out);
  void note_dial_answer(const LinkReady& event, base::Time now, Outbox& out);
  [[nodiscard]] bool refuse_link(const LinkReady& event, base::Time now, Outbox& out);
  void request_if_useful(const LinkReady& event, bool was_there, bool moves, base::Time now,
                         Outbox& out);

  // Each takes one message, in the file of what it is about; all others are Heard.
  void on_message(base::LinkId id, const wire::Neighbour& message, base::Time now, Outbox& out);
  void on_message(base::LinkId id, const wire::Gossip& gossip, base::Time now, Outbox& out);
  void on_message(base::LinkId id, const wire::Heartbeat& beat, base::Time now, Outbox& out);
  void on_message(base::LinkId id, const wire::Reconcile& message, base::Time now, Outbox& out);
  void on_message(base::LinkId id, const wire::Bye& bye, base::Time now, Outbox& out);
  template <class Other>
  void on_message(base::LinkId, const Other&, base::Time, Outbox&) {}

  static void send(base::LinkId id, wire::Message message, Outbox& out);
  static void notice(Outbox& out, base::Severity severity, std::string text);

  // core_overlay.cpp: links and neighbours
  [[nodiscard]] bool take_stranger_token(base::Time now);
  [[nodiscard]] bool stays(const Link& link, base::Time now) const;
  [[nodiscard]] bool resolve_duplicates(base::LinkId id, const Link& link, base::Time now,
                                        Outbox& out);
  void on_request(base::LinkId id, bool urgent, base::Time now, Outbox& out);
  void on_reject(base::LinkId id, base::Time now, Outbox& out);
  void request(base::LinkId id, bool urgent, base::Time now, Outbox& out);
  void become_neighbour(base::LinkId id, base::Time now, Outbox& out);
  void end_neighbour(base::LinkId id, LossReason reason, base::Time now, Outbox& out);
  void close(base::LinkId id, wire::ByeReason bye, LossReason reason, base::Time now, Outbox& out);
  void drop_surplus(const base::PeerId& keep, base::Time now, Outbox& out);
  void seek(base::Time now, Outbox& out);
  void seek_relays(base::Time now, Outbox& out);
  void seek_members(bool alive, std::size_t wanted, base::Time now, Outbox& out);
  void probe(base::Time now, Outbox& out);
  /// When to look for links again: `latest`, or earlier.
  [[nodiscard]] base::Time next_seek(base::Time now, base::Time latest) const;
  /// Held alive, or its return is known and not believed yet: a neighbour as good as others.
  [[nodiscard]] bool is_there(const wire::MemberRecord& record) const;
  /// Whether the two may be neighbours: one of them is the hub, where there is one.
  [[nodiscard]] bool fits_overlay(const wire::MemberRecord& record) const;
  /// Another one, and neither end has a reason against it.
  [[nodiscard]] bool may_be_neighbour(const wire::MemberRecord& record) const;
  [[nodiscard]] bool is_wanted(const wire::MemberRecord& record, bool alive) const;
  /// Whether it is there, wanted, no relay, and may be dialed now.
  [[nodiscard]] bool is_due(const wire::MemberRecord& record, base::Time now) const;
  void refer(base::LinkId id, const base::PeerId& to, Outbox& out);
  void dial_joins(base::Time now, Outbox& out);
  void ban(const base::PeerId& peer, base::Time now);
  [[nodiscard]] bool lacks_evidence(const base::PeerId& peer, base::Time now) const;
  /// Whether it may be in another part of the overlay: its counter stands still, while others move.
  [[nodiscard]] bool seems_apart(const base::PeerId& peer, base::Time now) const;
  [[nodiscard]] bool is_linked(const base::PeerId& peer) const;
  /// How many neighbours it has, as it told last; 0: it has not.
  [[nodiscard]] std::uint32_t links_told(const base::PeerId& peer) const;
  /// Tells that it has as many neighbours as it takes.
  [[nodiscard]] bool is_full(const base::PeerId& peer) const;
  /// A neighbour over a circuit, which a direct link with it replaces.
  [[nodiscard]] bool is_relayed_neighbour(const base::PeerId& peer) const;
  void dial(std::string address, Outbox& out) const;
  /// Links in this role, those with relays left out.
  [[nodiscard]] std::size_t count(Role role) const;
  /// Relays that this peer is linked with, or asked to be.
  [[nodiscard]] std::size_t relays() const;
  [[nodiscard]] bool is_relay() const { return !table_.self().has_replica; }
  /// Whether the two ends of this link exchange when they are neighbours.
  [[nodiscard]] bool exchanges(const Link& link) const { return !link.to_relay && !is_relay(); }
  [[nodiscard]] bool wants_relays() const;
  /// Whether one more neighbour may be at the other end of this link.
  [[nodiscard]] bool has_room_for(const Link& link) const;
  /// Whether this neighbour needs this relay no more than others.
  [[nodiscard]] bool needs_no_relay(const Link& link) const;
  [[nodiscard]] std::size_t neighbours_max() const {
    return is_relay() ? kServedMax : config_.degree + kDegreeSlack;
  }
  [[nodiscard]] std::size_t ready_links_max() const {
    return is_relay() ? kReadyLinksOfRelayMax : kReadyLinksMax;
  }
  /// Neighbours, those that fell silent included unless they are half of all: that is a cut, and
  /// the own side may have others.
  [[nodiscard]] std::size_t responsive_neighbours() const;
  [[nodiscard]] std::size_t wanted_neighbours() const;

  // core_gossip.cpp: records, heartbeats, suspicion
  void tell_suspicions(base::LinkId link, Outbox& out);
  [[nodiscard]] bool admit(const wire::MemberRecord& record, base::LinkId from, base::Time now,
                           Outbox& out);
  void on_claim(const wire::Claim& claim, base::LinkId from, base::Time now, Outbox& out);
  /// Signs a new version of the own record and sends it around; false if it is not newer.
  [[nodiscard]] bool announce(wire::MemberRecord own);
  /// The same of the present record with a change, unless this peer has left.
  void announce_change(wire::MemberRecord own);
  void refute(std::uint64_t incarnation, const char* taken_for, base::Time now, Outbox& out);
  /// A genuine record of this peer that is newer than its own.
  void on_own_record(const wire::MemberRecord& record, base::Time now, Outbox& out);
  void overrule_if_due(base::Time now, Outbox& out);
  /// Announces the own record with a higher incarnation; false where it is no newer for it.
  [[nodiscard]] bool raise_above(std::uint64_t incarnation, base::Time now);
  void changed(const wire::MemberRecord& record, bool was_alive, base::LinkId from, base::Time now);
  void accuse(const base::PeerId& peer, wire::DeathReason reason, base::Time now, Outbox& out);
  void accuse(const wire::MemberRecord& record, std::uint64_t by, wire::DeathReason reason,
              base::LinkId from, base::Time now, Outbox& out);
  /// Claims it on all links but the one that it came from.
  void queue_claim(const wire::MemberRecord& record, std::uint64_t by, wire::MemberState state,
                   wire::DeathReason reason, base::LinkId from);
  void send_rumours(Outbox& out);
  void send_heartbeat(base::LinkId id, Link& link, base::Time now, Outbox& out);
  void hurry_beats(base::Time now);
  void check_link_timers(base::LinkId id, base::Time now, Outbox& out);
  void end_suspicions(base::Time now, Outbox& out);
  [[nodiscard]] base::Time suspect_at(const Link& link) const;
  [[nodiscard]] base::Duration timeout_unit() const;
  [[nodiscard]] bool speaks(const Link& link) const { return link.role != Role::contact; }

  // core_reconcile.cpp: comparing tables
  void reconcile(base::LinkId id, Outbox& out) const;
  void send_entries(base::LinkId id, std::uint8_t bits, const std::vector<std::uint16_t>& buckets,
                    Outbox& out) const;
  void settle_entries(base::LinkId id, const wire::Reconcile& message, base::Time now, Outbox& out);
  void send_records(base::LinkId id, std::vector<const wire::MemberRecord*> records, base::Time now,
                    Outbox& out);

  // core_bounds.cpp
  void forget_gone();

  Config config_;
  base::Rng rng_;
  Signer& signer_;
  MemberTable table_;
  Dialer dialer_;
  ProgressTable progress_;
  Links links_;
  /// Changed records and the link each came from (none: from here), to be sent on all others.
  std::map<base::PeerId, base::LinkId> queued_records_;
  std::vector<QueuedClaim> queued_claims_;  ///< claims, to be sent likewise
  Suspicions suspicions_;
  FlapDamper damper_;
  LocalHealth health_;
  KeyConflict conflict_;
  std::map<base::PeerId, wire::DeathReason>
      death_reasons_;           ///< why members that are not alive are not
  PeersUntil banned_;           ///< those that broke the protocol
  PeersUntil no_room_;          ///< those that one of the two has no memory for
  PeersUntil had_no_place_;     ///< those that rejected this peer lately
  PeersUntil reconnect_first_;  ///< neighbours lost without their doing, wanted back first
  SeekPace pace_;
  double strangers_left_ = kStrangersPerSecond;  ///< number of strangers that may join now
  base::Time strangers_at_{};
  base::Time probe_at_{};               ///< time of the next probe; the epoch: not decided
  std::uint64_t reported_version_ = 0;  ///< alive_version at the last MembersChanged
  std::optional<base::Time> deadline_;
  base::Time health_at_{};  ///< earliest time at which the local health gets better
  base::Time now_{};
  base::Time late_until_{};  ///< time up to which timers are known to be late
  bool left_ = false;
  bool told_overflow_ = false;  ///< whether it was said that a counter found no room
};

}  // namespace starling::membership
