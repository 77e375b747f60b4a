// Membership of one peer: who is in the swarm, whom this peer is linked with, who is gone.
//
// Deterministic: time and random numbers are handed in, everything else comes as events and leaves
// as actions. Overlay: after HyParView (Leitao, Pereira, Rodrigues, DSN 2007), without its shuffle:
// the member table is complete, so it serves as the passive view. Failures: after SWIM (Das,
// Gupta, Motivala, DSN 2002), with neighbours' heartbeats in place of random probes.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/rng.hpp"
#include "base/time.hpp"
#include "membership/config.hpp"
#include "membership/dialer.hpp"
#include "membership/event.hpp"
#include "membership/failure_detector.hpp"
#include "membership/member_table.hpp"
#include "membership/progress.hpp"

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
  /// `self`: this peer's record with the addresses at which others reach it; it starts alive.
  Core(Config config, wire::MemberRecord self, base::Rng rng);

  void handle(const Event& event, base::Time now, Outbox& out);
  void expire(base::Time now, Outbox& out);
  [[nodiscard]] std::optional<base::Time> next_deadline() const;

  /// This peer's counter and what it reports; `links` is filled in. Sent with the heartbeats.
  void set_own_progress(const wire::Progress& own, base::Time now);
  /// Counters of all peers; observe() may be called on it at any time.
  [[nodiscard]] ProgressBook& progress() noexcept { return progress_; }
  [[nodiscard]] const ProgressBook& progress() const noexcept { return progress_; }

  /// All members in PeerId order, this peer included.
  [[nodiscard]] std::vector<wire::MemberRecord> members() const;
  /// Those that count as alive (suspects do), this peer included unless it left.
  [[nodiscard]] std::vector<wire::MemberRecord> alive() const;
  /// In order of peer id.
  [[nodiscard]] std::vector<NeighbourInfo> neighbours(base::Time now) const;
  [[nodiscard]] const wire::MemberRecord& self() const { return table_.self(); }
  [[nodiscard]] const MemberTable& table() const noexcept { return table_; }

 private:
  static constexpr std::size_t kBeatsKept = 16;

  enum class Role {
    contact,    ///< swaps tables, then is closed; or waits for the other end's request
    requested,  ///< this end asked to be neighbours
    neighbour,
  };

  struct Link {
    base::PeerId peer;
    bool dialed = false;  ///< by this end
    std::string address;  ///< that was dialed
    base::Time ready;
    Role role = Role::contact;
    base::Time role_ends;  ///< contact and requested: closed then
    FailureDetector detector;
    base::Time next_beat{};
    std::uint64_t beats = 0;                         ///< sent
    std::array<base::Time, kBeatsKept> beat_sent{};  ///< by sequence modulo kBeatsKept
    std::uint64_t beat_heard = 0;
    base::Time beat_heard_at{};
    std::optional<base::Duration> round_trip;
    int mismatches = 0;
    base::Time table_after{};  ///< no table is sent for a mismatch before
    base::Duration table_pause{0};
  };
  using Links = std::map<base::LinkId, Link>;

  // core.cpp: events
  void begin(base::Time now, Outbox& out);
  void finish(base::Time now, Outbox& out);
  void on(const LinkReady& event, base::Time now, Outbox& out);
  void on(const LinkLost& event, base::Time now, Outbox& out);
  void on(const DialFailed& event, base::Time now, Outbox& out);
  void on(const Received& event, base::Time now, Outbox& out);
  void on(const Heard& event, base::Time now, Outbox& out);
  void on(const Leave& event, base::Time now, Outbox& out);
  static void send(base::LinkId id, wire::Message message, Outbox& out);
  static void notice(Outbox& out, NoticeLevel level, std::string text);

  // core_overlay.cpp: links and neighbours
  [[nodiscard]] bool loses_to_other(base::LinkId id, const Link& link, base::Time now, Outbox& out);
  void on_neighbour(base::LinkId id, wire::NeighbourKind kind, base::Time now, Outbox& out);
  void on_request(base::LinkId id, bool urgent, base::Time now, Outbox& out);
  void on_reject(base::LinkId id, base::Time now, Outbox& out);
  void request(base::LinkId id, bool urgent, base::Time now, Outbox& out);
  void become_neighbour(base::LinkId id, base::Time now, Outbox& out);
  void end_neighbour(base::LinkId id, LossReason reason, base::Time now, Outbox& out);
  void close(base::LinkId id, wire::ByeReason bye, LossReason reason, base::Time now, Outbox& out);
  void drop_surplus(const base::PeerId& keep, base::Time now, Outbox& out);
  void seek(base::Time now, Outbox& out);
  void seek_members(bool alive, std::size_t wanted, base::Time now, Outbox& out);
  void probe(base::Time now, Outbox& out);
  void dial_failed(const std::string& address, bool own, base::Time now, Outbox& out);
  [[nodiscard]] std::optional<base::Time> next_seek(base::Time now) const;
  [[nodiscard]] bool is_wanted(const wire::MemberRecord& record, bool alive) const;
  [[nodiscard]] bool lacks_evidence(const base::PeerId& peer, base::Time now) const;
  [[nodiscard]] bool is_linked(const base::PeerId& peer) const;
  [[nodiscard]] std::size_t count(Role role) const;
  [[nodiscard]] std::size_t missing() const;

  // core_gossip.cpp: records, heartbeats, suspicion
  void apply(const wire::MemberRecord& record, base::LinkId from, base::Time now, Outbox& out);
  void refute(const wire::MemberRecord& record, Outbox& out);
  void changed(const wire::MemberRecord& record, bool was_alive, base::LinkId from, base::Time now);
  void claim(const base::PeerId& peer, wire::MemberState state, base::Time now, Outbox& out);
  void send_table(base::LinkId id, Outbox& out) const;
  void send_rumours(Outbox& out);
  void on_heartbeat(base::LinkId id, const wire::Heartbeat& beat, base::Time now, Outbox& out);
  void beat(base::LinkId id, Link& link, base::Time now, Outbox& out);
  void watch(base::LinkId id, base::Time now, Outbox& out);
  void end_suspicions(base::Time now, Outbox& out);
  [[nodiscard]] base::Duration suspicion() const;

  Config config_;
  base::Rng rng_;
  MemberTable table_;
  Dialer dialer_;
  ProgressBook progress_;
  Links links_;
  /// Changed records and the link each came from (none: from here), to be sent on all others.
  std::map<base::PeerId, base::LinkId> rumours_;
  std::map<base::PeerId, base::Time> suspicions_;  ///< suspect member: when it is dead
  std::set<base::PeerId> lost_;   ///< neighbours lost without their doing, wanted back first
  std::uint32_t rejections_ = 0;  ///< in a row
  base::Time probe_at_{};         ///< the epoch: not yet decided
  base::Time urgent_after_{};
  base::Duration urgent_pause_{0};
  std::uint64_t reported_version_ = 0;  ///< alive_version at the last MembersChanged
  std::size_t known_counters_ = 0;      ///< entries of progress_ when alive flags were last set
  std::optional<base::Time> deadline_;
  base::Time now_{};
  bool left_ = false;
};

}  // namespace starling::membership
