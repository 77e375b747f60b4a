// The reach of one peer: whether it can be dialed, and how it links with members that cannot.
//
// Deterministic: the caller passes in time and random numbers, everything else comes as events and
// leaves as actions. It composes the parts, each of which has fields, a deadline and bounds of its
// own, and takes each event to those that it concerns.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/bound.hpp"
#include "base/rng.hpp"
#include "base/time.hpp"
#include "reach/circuits.hpp"
#include "reach/config.hpp"
#include "reach/dial_backs.hpp"
#include "reach/dials.hpp"
#include "reach/direct_paths.hpp"
#include "reach/event.hpp"
#include "reach/introductions.hpp"
#include "reach/links.hpp"
#include "reach/members.hpp"
#include "reach/own_reach.hpp"
#include "reach/search.hpp"

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
  Core(const Core&) = delete;
  Core& operator=(const Core&) = delete;

  void handle(const Event& event, const Members& members, base::Time now, Outbox& out);
  void expire(const Members& members, base::Time now, Outbox& out);
  [[nodiscard]] std::optional<base::Time> next_deadline() const;

  /// `peer` answered a Dial: called once for each Dial that did not fail.
  Answered answered(const std::string& address, const base::PeerId& peer, base::Time now,
                    Outbox& out);
  /// Whether the next outcome at this address is that of a Want, or of nothing that is known.
  [[nodiscard]] bool is_wanted(const std::string& address) const {
    return dials_.is_wanted(address);
  }
  /// The address of the Want for this member, if reach is looking for other ways to it.
  [[nodiscard]] std::string address_of(const base::PeerId& peer) const {
    return search_.address_of(peer);
  }

  [[nodiscard]] bool is_dialing() const noexcept { return !dials_.empty(); }
  [[nodiscard]] const OwnReach& own() const noexcept { return own_; }
  [[nodiscard]] const Circuits& circuits() const noexcept { return circuits_; }

  /// Everything that can grow or wait: between two calls, all are within their limits.
  void add_bounds(base::Bounds& out) const;
  void add_timers(base::Time now, base::Bounds& out) const;

 private:
  void on(const LinkReady& event, const Call& call);
  void on(const LinkLost& event, const Call& call);
  void on(const Want& event, const Call& call) { search_.want(event, call); }
  void on(const DialFailed& event, const Call& call);
  void on(const Received& event, const Call& call);
  void on(const CircuitEnded& event, const Call& call);
  void on(const Moved& event, const Call& call);
  void on(const Retire&, const Call& call) { circuits_.retire(call.out); }
  template <class Visit>
  void visit_timers(const Visit& visit) const;
  void on_circuit(base::LinkId from, const wire::Circuit& message, const Call& call);

  base::PeerId self_;
  base::Rng rng_;
  Links links_;
  Dials dials_;
  OwnReach own_;
  DialBacks dial_backs_;
  Circuits circuits_;
  Search search_;
  Introductions introductions_;
  DirectPaths direct_paths_;
};

}  // namespace starling::reach
