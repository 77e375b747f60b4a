// A peer as a member of a ring: how its links become the ring, what it tells on them, what all
// peers agree on, and when the ring is over. A link may be replaced or break at any time: the ring
// goes on over the next one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/bound.hpp"
#include "base/peer_id.hpp"
#include "base/result.hpp"
#include "base/strong.hpp"
#include "base/time.hpp"
#include "membership/event.hpp"
#include "ring/gathering.hpp"
#include "ring/ring.hpp"
#include "wire/messages.hpp"

namespace starling::ring {

/// A link with a neighbour in a ring may be missing for this long.
inline constexpr base::Duration kGrace = std::chrono::seconds(30);
/// The charge against a peer that sends messages of a ring that does not exist, or not yet.
inline constexpr const char* kUnasked = "gradients that were not asked for";

/// Deterministic; one thread; time never decreases. The ring is made once, when all peers are here,
/// of those that have links with this one. It is over when one of them is missing for good.
class Member {
 public:
  struct Options {
    base::PeerId self;
    std::uint32_t peers = 2;   ///< of the ring, this one included; at least 2
    std::size_t elements = 0;  ///< of the averaged vector, > 0
    base::StepNumber first;    ///< of the first average
    std::uint64_t life = 0;    ///< tells this process from an earlier one
  };

  // Events.
  /// From then on, both ends send and receive only on this link.
  struct LinkUp {
    base::PeerId peer;
  };
  /// Precedes another LinkUp of the same peer.
  struct LinkDown {
    base::PeerId peer;
    membership::LossReason reason{};
  };
  /// On the current link with that peer.
  struct Received {
    base::PeerId peer;
    std::variant<wire::Reduce, wire::ReduceReceived> message;
  };
  /// By the member table, the peer does not come back, or not for now.
  struct HeldLost {
    base::PeerId peer;
  };
  /// This peer's part of the average of a step. May come only while the ring goes on, and once the
  /// last average is out.
  using Ready = Ring::GradientReady;
  using Event = std::variant<LinkUp, LinkDown, Received, HeldLost, Ready>;

  // Actions.
  /// All are here: the first average may begin.
  struct Made {};
  struct Send {
    base::PeerId peer;
    wire::Message message;
  };
  struct Averaged {
    std::vector<float> mean;
    bool save = false;  ///< at this step, as all peers of the ring do
  };
  /// The link has to be closed and its peer reported.
  struct Misbehaved {
    base::PeerId peer;
    std::string text;
  };
  /// The successor no longer needs anything from this peer. May come more than once.
  struct Served {};
  /// The ring cannot go on: the text says who is missing.
  struct Broken {
    std::string text;
  };
  /// The ring cannot be made, or it went wrong.
  struct Failed {
    base::Error error;
  };
  using Action = std::variant<Made, Send, Averaged, Misbehaved, Served, Broken, Failed>;

  explicit Member(const Options& options);

  /// Takes one event and appends the actions that it causes. After Broken or Failed nothing else
  /// may come.
  void handle(Event event, base::Time now, std::vector<Action>& out);
  [[nodiscard]] std::optional<base::Time> next_deadline() const;
  void expire(base::Time now, std::vector<Action>& out);

  /// Asks the others for a common checkpoint with the next average, or to stop after it and save.
  void wish_to_save() noexcept { wishes_to_save_ = true; }
  void wish_to_leave() noexcept { wishes_to_leave_ = true; }
  /// This peer does not begin another average.
  void finish() noexcept;

  [[nodiscard]] bool is_made() const noexcept { return ring_.has_value(); }
  /// Whether the ring is made and this peer still needs all of the others.
  [[nodiscard]] bool goes_on() const noexcept { return ring_ && !stops_ && !finished_; }
  /// A peer leaves, and the last average that was asked for is out.
  [[nodiscard]] bool stops() const noexcept { return stops_; }
  /// Whether the successor no longer needs anything from this peer.
  [[nodiscard]] bool is_served() const;
  /// Whether this peer may be in the ring.
  [[nodiscard]] bool admits(const base::PeerId& peer) const;
  /// The step that is being averaged, or comes next.
  [[nodiscard]] base::StepNumber step() const;
  /// The others of the ring in order of id; before it is made, those with a link.
  [[nodiscard]] std::vector<base::PeerId> others() const;

  void add_bounds(base::Bounds& out) const;
  void add_timers(base::Time now, base::Bounds& out) const;

 private:
  /// Another peer of the ring.
  struct Companion {
    bool linked = true;
    bool gone = false;                  ///< nothing more is heard of it
    std::optional<std::uint64_t> life;  ///< of its process
  };
  using Actions = std::vector<Action>;

  void on(const LinkUp& event, base::Time now, Actions& out);
  void on(const LinkDown& event, base::Time now, Actions& out);
  void on(Received& event, base::Time now, Actions& out);
  void on(const HeldLost& event, base::Time now, Actions& out);
  void on(Ready& event, base::Time now, Actions& out);
  void take(const base::PeerId& peer, wire::Reduce& message, Actions& out);
  void take(const base::PeerId& peer, const wire::ReduceReceived& message, Actions& out);
  void to_ring(Ring::Event event, Actions& out);
  [[nodiscard]] Averaged averaged(std::vector<float> mean);
  void tell(const base::PeerId& peer, const Ring::Position& position, Actions& out) const;
  void watch_links(base::Time now);
  void make(Actions& out);
  void lose(const base::PeerId& peer, const std::string& what, Actions& out);
  void part_with(Companion& companion, Actions& out);
  void break_if_predecessor_is_gone(Actions& out) const;
  void say_if_served(Actions& out) const;

  const Options options_;
  Gathering gathering_;  ///< until the ring is made
  std::optional<Ring> ring_;
  std::map<base::PeerId, Companion> companions_;  ///< once it is made
  bool wishes_to_save_ = false;
  bool wishes_to_leave_ = false;
  bool stops_ = false;
  bool finished_ = false;
  std::optional<base::Time> links_until_;  ///< how long it waits for a missing link
};

}  // namespace starling::ring
