// The reach of one peer: whether it can be dialed, and how it links with members that cannot.
//
// Deterministic: the caller passes in time and random numbers, everything else comes as events and
// leaves as actions. Dial back and circuits: after libp2p's AutoNAT and circuit relay v2;
// simultaneous dials: after its DCUtR (Seemann, Inden, Vyzovitis, "Decentralized Hole Punching",
// DINPS 2022).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/bound.hpp"
#include "base/rng.hpp"
#include "base/time.hpp"
#include "reach/allowance.hpp"
#include "reach/config.hpp"
#include "reach/event.hpp"
#include "reach/limits.hpp"
#include "reach/members.hpp"

namespace starling::reach {

/// The purpose of a dial that was answered.
struct Answered {
  enum class Purpose : std::uint8_t {
    want,   ///< for membership
    meet,   ///< to a wanted member, but at an address that membership did not name
    back,   ///< the other end asked for it: the Hello says so
    close,  ///< close it: no link is needed
  };
  Purpose purpose = Purpose::want;
  std::uint64_t nonce = 0;  ///< back: for Hello::answers
};

/// One thread at a time. Time never decreases. `members` is read only during the call.
class Core {
 public:
  /// `addresses`: where this peer listens; others are asked to dial the first one's port. `secure`:
  /// links are encrypted; otherwise there are no circuits.
  Core(const Config& config, const base::PeerId& self, std::vector<std::string> addresses,
       bool secure, base::Rng rng);

  void handle(const Event& event, const Members& members, base::Time now, Outbox& out);
  void expire(const Members& members, base::Time now, Outbox& out);
  [[nodiscard]] std::optional<base::Time> next_deadline() const;

  /// `peer` answered a Dial: called once for each Dial that did not fail.
  Answered answered(const std::string& address, const base::PeerId& peer, base::Time now,
                    Outbox& out);
  /// Whether the next outcome at this address is that of a Want, or of nothing that is known.
  [[nodiscard]] bool is_wanted(const std::string& address) const;
  /// The address of the Want for this member, if reach is looking for other ways to it.
  [[nodiscard]] std::string address_of(const base::PeerId& peer) const;

  [[nodiscard]] bool is_dialing() const noexcept { return !dials_.empty(); }
  [[nodiscard]] wire::Reachability reach() const noexcept { return reach_; }
  /// The address at which this peer was dialed from outside, or is seen; empty: not known.
  [[nodiscard]] const std::string& outer() const noexcept { return outer_; }
  /// The number of circuits that this peer relays, offered ones included.
  [[nodiscard]] std::size_t relayed() const noexcept { return relayed_.size(); }
  /// The bytes of ended circuits.
  [[nodiscard]] std::uint64_t relayed_bytes() const noexcept { return relayed_bytes_; }

  /// Everything that can grow or wait: between two calls, all are within their limits.
  void add_bounds(base::Bounds& out) const;
  void add_timers(base::Time now, base::Bounds& out) const;

 private:
  struct Link {
    base::PeerId peer;
    std::string observed;
    base::LinkId via;
    int holds = 0;
    Allowance dial_backs{kDialBacksEach, kDialBacksEachBurst};
    Allowance introductions{kIntroductionsEach, kIntroductionsEachBurst};
  };

  /// A member that was asked to dial back.
  struct Witness {
    base::LinkId link;
    base::PeerId peer;
    std::uint64_t nonce = 0;
    base::Time until;
    wire::DialBackOutcome outcome = wire::DialBackOutcome::none;
    std::string observed;
  };

  enum class Purpose : std::uint8_t { want, meet, back, probe };
  /// A dial without an outcome.
  struct Dialing {
    Purpose purpose = Purpose::want;
    std::string address;
    std::optional<base::PeerId> peer;
    std::uint64_t nonce = 0;  ///< of the request for it
    base::LinkId link;        ///< probe: the answer goes there
    std::optional<base::Time> answer_by{};
    bool told = false;  ///< want: membership has its outcome
  };

  /// A member that has a direct link with the wanted one, too.
  struct Common {
    base::LinkId link;
    base::Duration round_trip{};  ///< over it to the wanted one and back
    std::uint8_t load = 0;
    bool called = false;  ///< for a circuit
  };

  enum class Stage : std::uint8_t {
    direct,   ///< only dialed
    asking,   ///< asking for members in common
    meeting,  ///< dialed back, or simultaneously
    calling,  ///< calling a relay
    opening,  ///< opening a circuit
  };
  /// A search for a wanted member, or for a direct path to one that is linked over a circuit.
  struct Attempt {
    base::PeerId peer;
    bool upgrade = false;
    bool dialing = false;  ///< the direct dial has no outcome yet
    Stage stage = Stage::direct;
    std::optional<base::Time> next_at{};   ///< of the stage's next step
    std::optional<base::Time> punch_at{};  ///< of this end's dials in this try
    base::Time expires;
    std::uint64_t nonce = 0;
    base::Time asked_at{};
    std::size_t unanswered = 0;  ///< links that were asked
    std::vector<Common> commons{};
    std::string observed{};  ///< the wanted member's address, as one of them sees it
    int tries = 0;
    std::pair<base::LinkId, std::uint32_t> circuit{};  ///< calling and opening
    std::string text{};                                ///< why the last way failed
    bool no_route = false;                             ///< of the direct dial
  };
  using Attempts = std::map<std::string, Attempt>;

  /// A member that asked for a link with this peer.
  struct Introduced {
    base::PeerId peer;
    base::LinkId link;  ///< of the member that passed it on
    std::uint64_t nonce = 0;
    std::string observed;
    base::Time until;
    int goes = 0;
  };

  struct Upgrade {
    base::PeerId peer;
    base::Time at;
    base::Duration pause{};
  };

  /// A circuit is named by a link and a number on it.
  using CircuitKey = std::pair<base::LinkId, std::uint32_t>;
  struct CircuitEnd {
    base::PeerId peer;
    bool dialer = false;
  };
  struct Relayed {
    CircuitKey b;  ///< the leg to the target
    std::optional<base::Time> answer_by;
  };
  using RelayedCircuits = std::map<CircuitKey, Relayed>;

  // core.cpp
  void on(const LinkReady& event, const Members& members, base::Time now, Outbox& out);
  void on(const LinkLost& event, const Members& members, base::Time now, Outbox& out);
  void on(const Want& event, const Members& members, base::Time now, Outbox& out);
  void on(const DialFailed& event, const Members& members, base::Time now, Outbox& out);
  void on(const Received& event, const Members& members, base::Time now, Outbox& out);
  void on(const CircuitEnded& event, const Members& members, base::Time now, Outbox& out);
  void on(const Moved& event, const Members& members, base::Time now, Outbox& out);
  void on(const Retire& event, const Members& members, base::Time now, Outbox& out);
  bool dial(Dialing dialing, DialKind kind, Outbox& out);
  [[nodiscard]] std::vector<Dialing>::iterator find_dial(
      const std::string& address, const std::optional<base::PeerId>& peer = std::nullopt);
  [[nodiscard]] std::size_t count(Purpose purpose) const;
  /// The direct link with this member, if any.
  [[nodiscard]] base::LinkId direct_link(const base::PeerId& peer) const;
  static void send(base::LinkId link, wire::Message message, Outbox& out);
  void hold(base::LinkId link, int change, Outbox& out);

  // core_witness.cpp
  void on_message(base::LinkId from, const wire::DialBack& ask, const Members& members,
                  base::Time now, Outbox& out);
  void on_message(base::LinkId from, const wire::DialedBack& answer, const Members& members,
                  base::Time now, Outbox& out);
  void ask_soon(base::Time now, base::Duration pause);
  void ask_witnesses(base::Time now, Outbox& out);
  void conclude_if_told(base::Time now, Outbox& out);
  void conclude(base::Time now, Outbox& out);
  void answer_probe(const Dialing& probe, wire::DialBackOutcome outcome, Outbox& out);
  void end_late_probes(base::Time now, Outbox& out);
  [[nodiscard]] bool is_own_network(const std::string& address) const;

  // core_meet.cpp
  void on_message(base::LinkId from, const wire::Introduce& message, const Members& members,
                  base::Time now, Outbox& out);
  void pass_on(base::LinkId from, const wire::Introduce& message, base::Time now, Outbox& out);
  void on_asked(base::LinkId from, const wire::Introduce& message, const wire::MemberRecord& asker,
                base::Time now, Outbox& out);
  void on_answer(base::LinkId from, const wire::Introduce& message, const Members& members,
                 base::Time now, Outbox& out);
  void on_go(base::LinkId from, const wire::Introduce& message, const wire::MemberRecord& asker,
             base::Time now, Outbox& out);
  void ask(Attempts::iterator at, base::Time now, Outbox& out);
  /// Whether no more simultaneous dials are to be tried.
  [[nodiscard]] bool is_tried(const Attempt& attempt, base::Time now);
  void next_try(Attempts::iterator at, const Members& members, base::Time now, Outbox& out);
  void punch(Attempts::iterator at, const Members& members, Outbox& out);
  /// Only the direct dial is left, if it is still under way.
  void give_up(Attempts::iterator at, base::Time now, Outbox& out);
  void fail(Attempts::iterator at, bool own, base::Time now, Outbox& out);
  void end_attempts(const LinkReady& link, base::Time now, Outbox& out);
  void expire_attempts(const Members& members, base::Time now, Outbox& out);
  void look_for_direct_paths(const Members& members, base::Time now, Outbox& out);
  /// Half of it to all of it.
  [[nodiscard]] base::Duration jittered_pause(base::Duration pause);
  [[nodiscard]] bool needs_help(const base::PeerId& peer, const Members& members,
                                base::Time now) const;
  [[nodiscard]] std::vector<std::string> candidates(const wire::MemberRecord& record,
                                                    const std::string& observed) const;

  // core_relay.cpp
  void on_message(base::LinkId from, const wire::Circuit& message, const Members& members,
                  base::Time now, Outbox& out);
  void on_circuit_ask(base::LinkId from, const wire::Circuit& ask, base::Time now, Outbox& out);
  void on_circuit_offer(base::LinkId from, const wire::Circuit& offer, const Members& members,
                        Outbox& out);
  void on_circuit_accept(base::LinkId from, std::uint32_t number, base::Time now, Outbox& out);
  void on_circuit_refuse(base::LinkId from, const wire::Circuit& refusal, base::Time now,
                         Outbox& out);
  void call_relay(Attempts::iterator at, base::Time now, Outbox& out);
  static void refuse(base::LinkId to, std::uint32_t number, wire::CircuitRefusal reason,
                     Outbox& out);
  void drop_relayed(RelayedCircuits::iterator at, Outbox& out);
  /// The attempt to which this circuit belongs, at this stage; otherwise the end.
  [[nodiscard]] Attempts::iterator attempt_over(const CircuitKey& key, Stage stage);
  void end_late_offers(base::Time now, Outbox& out);
  void forget_offers_of(base::LinkId link, Outbox& out);
  [[nodiscard]] wire::CircuitRefusal refusal_of(base::LinkId from, const wire::Circuit& ask,
                                                base::Time now);
  [[nodiscard]] std::uint32_t draw_number(base::LinkId link);
  [[nodiscard]] bool is_named(const CircuitKey& key) const;
  [[nodiscard]] std::uint8_t load() const;
  [[nodiscard]] bool may_relay() const noexcept {
    return secure_ && config_.circuits > 0 && config_.limit > 0;
  }
  [[nodiscard]] bool relays() const noexcept { return may_relay() && !retired_; }

  Config config_;
  base::PeerId self_;
  std::vector<std::string> addresses_;  ///< this machine's own
  bool secure_;
  base::Rng rng_;
  std::map<base::LinkId, Link> links_;
  std::vector<Dialing> dials_;  ///< in order of their start

  // Can this peer be dialed?
  wire::Reachability reach_ = wire::Reachability::unknown;
  std::string outer_;
  std::vector<Witness> witnesses_;           ///< of the current round
  std::vector<std::string> networks_;        ///< of the witnesses of the last result
  std::optional<base::Time> ask_at_;         ///< nothing: when a link comes up
  std::optional<base::Time> asked_;          ///< the last round
  std::optional<base::Time> linked_since_;   ///< since when there has always been a link
  base::Duration ask_pause_ = kAskAgainMin;  ///< after a round without a result
  Allowance dial_backs_{kDialBacksAll, kDialBacksAllBurst};

  // Wanted members, and those that want this one.
  Attempts attempts_;  ///< by the address of the Want; an upgrade has no address
  std::map<base::PeerId, base::Time> failed_;  ///< direct dials failed; until when this counts
  std::map<base::PeerId, base::Time> unmet_;   ///< all tries failed; until when this counts
  std::vector<Introduced> introduced_;
  Allowance backs_{kBacksAll, kBacksAllBurst};
  std::map<base::LinkId, Upgrade> upgrades_;  ///< by the relayed link

  // Circuits.
  bool retired_ = false;
  std::map<CircuitKey, CircuitEnd> ends_;
  RelayedCircuits relayed_;  ///< by the asker's leg
  std::uint64_t relayed_bytes_ = 0;
};

}  // namespace starling::reach
