// How a peer's replica is kept in agreement with the others: over links that exchange deltas, round
// a ring of a fixed set of peers, or not at all. The rest of the peer asks here, and knows neither.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/bound.hpp"
#include "base/peer_id.hpp"
#include "base/rng.hpp"
#include "base/time.hpp"
#include "exchange/core.hpp"
#include "membership/core.hpp"
#include "peer/config.hpp"
#include "peer/events.hpp"
#include "peer/resume.hpp"
#include "ring/member.hpp"

namespace starling::peer {

/// Deterministic; one thread; time never decreases.
class Agreement {
 public:
  // Events.
  /// A neighbour, with which this peer exchanges from now on.
  struct LinkUp {
    base::PeerId peer;
  };
  /// Precedes another LinkUp of the same peer.
  struct LinkDown {
    base::PeerId peer;
    membership::LossReason reason{};
  };
  /// On the present link with that peer.
  struct Received {
    base::PeerId peer;
    std::variant<wire::LinkOpen, wire::Keyframe, wire::Delta, wire::Settle, wire::Reduce,
                 wire::ReduceReceived>
        message;
    base::Duration took{};  ///< from its first byte to its last; 0: less than could be told
  };
  /// This peer's values to be averaged, as its worker gave them.
  struct Contribution {
    std::uint64_t samples = 0;  ///< own samples
    std::vector<float> values;
    std::optional<base::StepNumber> step{};  ///< of a gradient
  };
  /// Members may be gone: for peers that go in step alone.
  struct MembersChanged {};
  using Event = std::variant<LinkUp, LinkDown, Received, Contribution, MembersChanged,
                             exchange::Outcome, exchange::KeyframeArriving, exchange::Progressed,
                             exchange::Vouched, exchange::Company, exchange::Phase>;

  // Actions.
  using Send = exchange::Send;
  using Misbehaved = exchange::Misbehaved;
  using NoRoom = exchange::NoRoom;
  using Settled = exchange::Settled;
  using Failed = exchange::Failed;
  /// A checkpoint is due at this step, at which all save.
  struct SaveTogether {};
  /// The others need nothing of this peer any more; may come more than once.
  struct Served {};
  /// This peer cannot go on without another, which is gone.
  struct Broken {
    base::Error error;
  };
  /// Those that end a link come last: jobs are run in order.
  using Action = std::variant<Send, Run, Settled, SaveTogether, Served, Broken, Failed,
                              base::LogEntry, Misbehaved, NoRoom>;
  using Outbox = std::vector<Action>;

  /// The text against who sends gradients where none are exchanged.
  static constexpr const char* kUnasked = ring::kUnasked;

  /// Draws from `rng`. `config` and `membership` outlive this.
  Agreement(const Config& config, const membership::Core& membership, const Resume& resume,
            base::Rng& rng);

  void handle(Event event, base::Time now, Outbox& out);
  [[nodiscard]] std::optional<base::Time> next_deadline() const;
  void expire(base::Time now, Outbox& out);
  /// This peer makes no step any more.
  void finish() noexcept;
  void wish_to_leave() noexcept;
  /// Whether the checkpoint comes by itself, at a step at which all save. Otherwise this peer saves
  /// for itself, now.
  [[nodiscard]] bool saves_together() noexcept;

  // Steps, of which those between two averages are a round, where replicas are averaged at all.
  /// The job with which a step at this learning rate begins, on `part` of a whole batch.
  [[nodiscard]] Job begin_step(float learning_rate, double part);
  void step_made() noexcept { ++round_steps_; }
  /// The job that begins an average, if one is due: a round is complete, or the run is `over`.
  [[nodiscard]] std::optional<Job> begin_average(bool over);
  /// No step is made until average_made().
  [[nodiscard]] bool is_averaging() const noexcept { return averaging_; }
  void average_made() noexcept { averaging_ = false; }
  /// Replicas are alike at the end of a round only.
  [[nodiscard]] bool has_rounds() const noexcept { return mode_ == exchange::Mode::local; }

  // The state.
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
  /// The end of a peer that cannot go on, as `what` says.
  [[nodiscard]] base::Error end_by(const std::string& what) const;
  /// The others cannot go on without this peer, yet.
  [[nodiscard]] bool is_needed() const noexcept { return ring_ && ring_->goes_on(); }
  /// The others have all that they need of what this peer has made.
  [[nodiscard]] bool is_served() const { return !ring_ || ring_->is_served(); }
  [[nodiscard]] bool admits(const base::PeerId& peer) const {
    return !ring_ || ring_->admits(peer);
  }
  /// The largest, relative to the norm, at the last moment with an open link.
  [[nodiscard]] const std::optional<double>& drift() const noexcept { return drift_; }
  [[nodiscard]] const exchange::Core& exchange() const noexcept { return exchange_; }

  void add_bounds(std::size_t neighbours, base::Bounds& out) const;
  void add_timers(base::Time now, base::Bounds& out) const;

 private:
  void to_exchange(exchange::Event event, base::Time now, Outbox& out);
  void to_ring(ring::Member::Event event, base::Time now, Outbox& out);
  void take(exchange::Outbox& actions, Outbox& out);
  void take(std::vector<ring::Member::Action>& actions, Outbox& out);

  const Config& config_;
  const membership::Core& membership_;
  exchange::Mode mode_;
  exchange::Core exchange_;
  std::optional<ring::Member> ring_;
  float learning_rate_ = 0;        ///< of the step that was begun last
  std::uint32_t round_steps_ = 0;  ///< own steps since the last average
  bool averaging_ = false;
  std::optional<double> drift_;
};

}  // namespace starling::peer
