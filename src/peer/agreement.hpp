// How a peer's replica is kept in agreement with the others: over links that exchange deltas, round
// a ring of a fixed set of peers, or not at all. The rest of the peer asks here, and knows neither.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "base/bound.hpp"
#include "base/peer_id.hpp"
#include "base/rng.hpp"
#include "base/time.hpp"
#include "exchange/core.hpp"
#include "peer/config.hpp"
#include "peer/resume.hpp"
#include "ring/member.hpp"

namespace starling::peer {

/// Deterministic; one thread; time never decreases.
class Agreement {
 public:
  /// What is to be done: of the two lists, one is empty.
  struct Outbox {
    exchange::Outbox exchange;
    std::vector<ring::Member::Action> ring;
  };

  /// Draws from `rng`.
  Agreement(const Config& config, const base::PeerId& self, const Resume& resume, base::Rng& rng);

  // Events.
  void link_up(const base::PeerId& peer, base::Time now, Outbox& out);
  void link_down(const base::PeerId& peer, membership::LossReason reason, base::Time now,
                 Outbox& out);
  void handle(exchange::Event event, base::Time now, Outbox& out);
  /// Where all go in step.
  void handle(ring::Member::Event event, base::Time now, Outbox& out);
  [[nodiscard]] std::optional<base::Time> next_deadline() const;
  void expire(base::Time now, Outbox& out);
  /// This peer makes no step any more.
  void finish() noexcept;
  void wish_to_leave() noexcept;
  /// Whether the checkpoint comes by itself, at a step at which all save. Otherwise this peer saves
  /// for itself, now.
  [[nodiscard]] bool saves_together() noexcept;

  // What holds.
  [[nodiscard]] bool has_links() const noexcept { return exchange::uses_links(mode_); }
  /// All peers make the same steps, so they know the same and decide alike.
  [[nodiscard]] bool goes_in_step() const noexcept { return ring_.has_value(); }
  /// The first step may be made: `enough` links are there, of `neighbours`, or they are not waited
  /// for (`waits` is false). `over`: others have ended the run already.
  [[nodiscard]] bool may_start(std::size_t neighbours, std::size_t enough, bool waits,
                               bool over) const;
  /// A further step may be made, by a peer that `leaves`, or has an evaluation `under_way`.
  [[nodiscard]] bool may_step(bool leaves, bool under_way) const;
  /// Another peer leaves, and this one cannot go on without it: the last common step was made.
  [[nodiscard]] bool stops() const noexcept { return ring_ && ring_->stops(); }
  /// The others cannot go on without this peer, yet.
  [[nodiscard]] bool is_needed() const noexcept { return ring_ && ring_->goes_on(); }
  /// The others have all that they need of what this peer has made.
  [[nodiscard]] bool is_served() const { return !ring_ || ring_->is_served(); }
  [[nodiscard]] bool admits(const base::PeerId& peer) const {
    return !ring_ || ring_->admits(peer);
  }
  /// Those without whom a peer that goes in step cannot go on.
  [[nodiscard]] std::vector<base::PeerId> companions() const;
  /// Number of the step that all make next, where they go in step.
  [[nodiscard]] base::StepNumber common_step() const { return ring_->step(); }
  [[nodiscard]] const exchange::Core& exchange() const noexcept { return exchange_; }

  void add_bounds(std::size_t neighbours, base::Bounds& out) const;
  void add_timers(base::Time now, base::Bounds& out) const;

 private:
  exchange::Mode mode_;
  exchange::Core exchange_;
  std::optional<ring::Member> ring_;
};

}  // namespace starling::peer
