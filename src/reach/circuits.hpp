// Circuits, as one of their ends and as the relay. After libp2p's circuit relay v2.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>

#include "base/bound.hpp"
#include "base/rng.hpp"
#include "base/time.hpp"
#include "reach/config.hpp"
#include "reach/limits.hpp"
#include "reach/links.hpp"
#include "reach/members.hpp"

namespace starling::reach {

/// A circuit as one end of a link names it.
struct CircuitName {
  base::LinkId link;
  std::uint32_t number = 0;

  friend auto operator<=>(const CircuitName&, const CircuitName&) = default;
};

class Circuits {
 public:
  /// `secure`: links are encrypted; otherwise there are no circuits. The last three outlive this.
  Circuits(const Config& config, bool secure, const base::PeerId& self, Links& links,
           base::Rng& rng)
      : config_(config), secure_(secure), self_(self), links_(links), rng_(rng) {}

  /// A member wants this peer to relay.
  void on_ask(base::LinkId from, const wire::Circuit& ask, const Call& call);
  /// A relay offers a circuit with a member that asks for it.
  void on_offer(base::LinkId from, const wire::Circuit& offer, const Call& call);
  /// False: not from the target of a circuit that this peer has offered.
  bool on_accept(const CircuitName& name, const Call& call);
  /// False: this is no circuit of this peer.
  bool on_refuse(const CircuitName& name, wire::CircuitRefusal reason, const Call& call);
  /// True: this peer was an end of it, and the link that it was for may still be wanted.
  bool on_ended(const CircuitEnded& event, Outbox& out);
  /// Circuits that already carry something end with the link, and are reported.
  void on_link_lost(base::LinkId link, const Call& call);
  /// Ends the circuits of which this peer is an end, and takes no new ones.
  void retire(Outbox& out);
  /// Ends the offers that were not answered.
  void expire(const Call& call);

  /// Whether this peer may be an end of one more circuit.
  [[nodiscard]] bool may_open() const noexcept;
  /// A name for a new circuit on this link.
  [[nodiscard]] CircuitName draw_name(base::LinkId link);
  /// This peer becomes an end. The one that asked begins: it is the `dialer`.
  void open(const CircuitName& name, const base::PeerId& peer, bool dialer, Outbox& out);
  /// An end's circuit that is not needed any more, if it is still there.
  void end(const CircuitName& name, Outbox& out);
  [[nodiscard]] bool is_named(const CircuitName& name) const;
  static void refuse(const CircuitName& name, wire::CircuitRefusal reason, const Call& call);

  /// As Introduce::load.
  [[nodiscard]] std::uint8_t load() const;
  /// The number of circuits that this peer relays, offered ones included.
  [[nodiscard]] std::size_t relayed() const noexcept { return relayed_.size(); }
  /// The bytes of ended circuits.
  [[nodiscard]] std::uint64_t relayed_bytes() const noexcept { return relayed_bytes_; }

  void add_bounds(base::Bounds& out) const {
    out.add("ends of circuits", ends_.size(), kCircuitEndsMax);
    out.add("circuits relayed", relayed_.size(), may_relay() ? config_.circuits : 0);
  }
  /// Calls visit(what, at, limit) for each time at which expire() has something to do.
  template <class Visit>
  void visit_timers(const Visit& visit) const {
    for (const auto& [a, relayed] : relayed_) {
      visit("the answer to an offered circuit", relayed.answer_by, kOfferWait);
    }
  }

 private:
  struct Relayed {
    CircuitName b;  ///< the leg to the target
    std::optional<base::Time> answer_by;
  };
  using RelayedCircuits = std::map<CircuitName, Relayed>;

  void drop(RelayedCircuits::iterator at, Outbox& out);
  [[nodiscard]] RelayedCircuits::iterator find(const CircuitName& leg);
  [[nodiscard]] wire::CircuitRefusal refusal_of(base::LinkId from, const wire::Circuit& ask,
                                                base::Time now);
  [[nodiscard]] bool may_relay() const noexcept {
    return secure_ && config_.circuits > 0 && config_.limit > 0;
  }

  Config config_;
  bool secure_;
  const base::PeerId& self_;
  Links& links_;
  base::Rng& rng_;
  bool retired_ = false;
  std::set<CircuitName> ends_;
  RelayedCircuits relayed_;  ///< by the asker's leg
  std::uint64_t relayed_bytes_ = 0;
};

}  // namespace starling::reach
