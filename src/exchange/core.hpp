// Tracked link averaging as a protocol: what a peer says and does about its links, without a clock,
// a socket, a thread or a vector of parameters. Numeric work goes out as jobs (jobs.hpp).
//
// An exchange on a link: each end writes q(t), the delta of its replica, and sends it; with both
// q(t) an end commits t, and may write q(t+1) `every` own steps after q(t). So one exchange is
// under way on a link, the slower end sets its pace, and no link waits for another.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/bound.hpp"
#include "base/notice.hpp"
#include "base/peer_id.hpp"
#include "base/result.hpp"
#include "base/rng.hpp"
#include "base/strong.hpp"
#include "base/time.hpp"
#include "exchange/config.hpp"
#include "exchange/jobs.hpp"
#include "exchange/link.hpp"
#include "exchange/pace.hpp"
#include "wire/messages.hpp"

namespace starling::exchange {

/// Openings of one link until it breaks; a peer that asks for more misbehaves.
inline constexpr std::uint32_t kRoundsMax = 64;
/// Payload bytes of a keyframe or a delta of a replica of `elements`, at most; buffers come on top.
[[nodiscard]] std::size_t payload_bytes_max(std::size_t elements) noexcept;

// --- events, beside the outcomes of jobs ---

struct NeighbourUp {
  base::PeerId peer;
};
struct NeighbourDown {
  base::PeerId peer;
  bool for_good = false;  ///< it left or misbehaved; else the link is broken and may come back
};
struct Received {
  base::PeerId peer;
  std::variant<wire::LinkOpen, wire::Delta, wire::Keyframe> message;
  base::Duration took{};  ///< from its first byte to its last; 0: too short to be measured
};
/// More bytes came of a keyframe that is not complete yet.
struct KeyframeArriving {
  base::PeerId peer;
  std::size_t bytes = 0;
};
/// After each own step, and when the swarm's progress is known better.
struct Progressed {
  base::StepNumber step;      ///< number of own steps
  std::uint64_t samples = 0;  ///< own samples
  double progress = 0.0;      ///< the swarm's progress, 0 to 1
  base::Duration took{};      ///< time that the step took to compute; 0: none was made
};
/// Whether members are known of that may become neighbours; until it is told, there are none.
struct Company {
  bool expected = false;
};
enum class Phase : std::uint8_t { training, settling, done };

using Event = std::variant<NeighbourUp, NeighbourDown, Received, Progressed, Company, Phase,
                           Encoded, Committed, KeyframeMade, Opened, KeyframeArriving>;

/// An outcome as the event it is.
[[nodiscard]] Event event_of(Outcome outcome);

// --- actions ---

struct Send {
  base::PeerId peer;
  wire::Message message;
};
struct Run {
  Job job;
};
/// The link is to be closed and its peer reported; the core has forgotten it already.
struct Misbehaved {
  base::PeerId peer;
  std::string text;
};
/// There is no room for a link with this peer, which is not to blame: the link is to be closed, and
/// none to be opened for a while. The core has forgotten it already.
struct NoRoom {
  base::PeerId peer;
  std::string text;
};
/// Comes once, in Phase::settling: every link partner has settled and agrees, and there is one if
/// there may be, or the time is up.
struct Settled {
  bool timed_out = false;
};
/// The own replica is not finite or lost, or what this end made is wrong: the run cannot go on.
struct Failed {
  base::Error error;
};

using Action = std::variant<Send, Run, Misbehaved, NoRoom, Settled, base::Notice, Failed>;
using Outbox = std::vector<Action>;

struct Options {
  Config config;
  std::size_t elements = 0;          ///< elements of the replica
  std::size_t buffers = 0;           ///< values of its buffers
  std::uint64_t samples_target = 1;  ///< samples of the whole run
  // What the peer starts from.
  bool has_state = false;  ///< it has a checkpoint; else the initial parameters
  base::StepNumber step{};
  std::uint64_t samples = 0;
  double progress = 0.0;  ///< the swarm's progress, as the checkpoint knows it
};

enum class LinkStage : std::uint8_t { opening, open, broken };

struct LinkStatus {
  base::PeerId peer;
  LinkStage stage = LinkStage::opening;
  base::ExchangeNumber committed;
  double bandwidth = 0;  ///< bytes/s at which own deltas arrive; 0: not known, or too fast to tell
  double drift = 0.0;    ///< drift when the last delta was written
  double density = 0.0;  ///< density that was asked for of the last delta
  LinkCounters counters;
};

/// One peer's exchange. Not thread-safe; time never decreases.
class Core {
 public:
  Core(const Options& options, base::Rng rng);

  /// Takes one event in and appends the actions it causes.
  void handle(Event event, base::Time now, Outbox& out);
  /// When expire() has something to do; nothing: never, as things stand.
  [[nodiscard]] std::optional<base::Time> next_deadline() const;
  void expire(base::Time now, Outbox& out);

  [[nodiscard]] std::vector<LinkStatus> links() const;
  /// The largest drift over the open links, when their last deltas were written.
  [[nodiscard]] double drift() const;
  /// Sums over all links there ever were.
  [[nodiscard]] LinkCounters totals() const;
  [[nodiscard]] std::size_t open_links() const;
  /// A neighbour's replica is being taken over: own steps until then are lost.
  [[nodiscard]] bool adopting() const;
  /// This peer would take over a neighbour's replica rather than mix its own in.
  [[nodiscard]] bool may_adopt() const;
  /// Little of the run is in this replica: it was to take over another's, and no link was ever
  /// open.
  [[nodiscard]] bool is_bystander() const;
  /// The swarm's progress, by what this peer knows and what neighbours have sent.
  [[nodiscard]] double known_progress() const noexcept {
    return std::max(progress_, neighbours_progress_);
  }
  /// What can grow, of a peer with so many neighbours, and what waits: nothing is above its limit
  /// between two calls.
  void add_bounds(std::size_t neighbours, base::Bounds& out) const;
  void add_timers(base::Time now, base::Bounds& out) const;

 private:
  using Links = std::map<base::PeerId, Link>;

  // Events (core.cpp).
  void on(const NeighbourUp& event, base::Time now, Outbox& out);
  void on(const NeighbourDown& event, base::Time now, Outbox& out);
  void on(Received& event, base::Time now, Outbox& out);
  void on(const Progressed& event, base::Time now, Outbox& out);
  void on(const Company& event, base::Time now, Outbox& out);
  void on(const Phase& phase, base::Time now, Outbox& out);
  void on(Encoded& event, base::Time now, Outbox& out);
  void on(Committed& event, base::Time now, Outbox& out);
  void on(KeyframeMade& event, base::Time now, Outbox& out);
  void on(Opened& event, base::Time now, Outbox& out);
  void on(const KeyframeArriving& event, base::Time now, Outbox& out);

  // Opening (core_opening.cpp).
  void receive(Links::iterator at, wire::LinkOpen& open, base::Time now, Outbox& out);
  void receive(Links::iterator at, wire::Keyframe& keyframe, Outbox& out);
  /// Began anew, and has made no more than a beginning of the run by itself.
  [[nodiscard]] bool is_fresh() const;
  /// Own samples of this start, as part of the run's.
  [[nodiscard]] double own_progress() const;
  [[nodiscard]] bool may_send_open(const Link& link) const;
  /// Its state may be too old, and it has no neighbour's LinkOpen yet.
  [[nodiscard]] bool is_fresh_restart() const;
  /// A neighbour was asked for its replica and is waited for.
  [[nodiscard]] bool asking() const;
  void send_open(Links::iterator at, base::Time now, Outbox& out);
  void send_due_opens(base::Time now, Outbox& out);
  void decide(Links::iterator at, Said said, wire::LinkOpen theirs, base::Time now, Outbox& out);
  [[nodiscard]] JobTag request_keyframe(const base::PeerId& peer, bool with_buffers, Outbox& out);
  void set_mirrors(Links::iterator at, std::uint64_t session, OpenJob job, Outbox& out);
  void merge_when_ready(Links::iterator at, Outbox& out);
  void resume(Links::iterator at, base::ExchangeNumber theirs, base::Time now, Outbox& out);
  void new_round(Links::iterator at, Outbox& out);
  void drop_before(Links::iterator at, Outbox& out);
  void reopen_others(const base::PeerId& peer, Outbox& out);
  void expire_waiting(base::Time now, Outbox& out);
  void expire_asking(base::Time now, Outbox& out);
  void expire_listening(base::Time now);

  // Exchanges (core_exchange.cpp).
  void receive(Links::iterator at, wire::Delta& delta, base::Duration took, base::Time now,
               Outbox& out);
  [[nodiscard]] bool with_buffers(base::ExchangeNumber t) const;
  void take(Links::iterator at, wire::Delta delta, base::Time now, Outbox& out);
  [[nodiscard]] bool wants_delta(const Session& session) const;
  void request_delta(const base::PeerId& peer, Link& link, base::ExchangeNumber t, Outbox& out);
  void reserve_upload(Link& link, std::size_t bytes, base::Time now);
  void request_next(const base::PeerId& peer, Link& link, base::Time now, Outbox& out);
  [[nodiscard]] wire::Delta delta_of(Encoded& event, const Link& link) const;
  void commit_when_ready(const base::PeerId& peer, Link& link, base::Time now, Outbox& out);
  void commit_again(CommitJob job, base::Time now, Outbox& out);
  void reopen_differing(Links::iterator at, base::ExchangeNumber t, Outbox& out);
  [[nodiscard]] DeltaBudget budget(const Link& link) const;
  void wake_links(base::Time now, Outbox& out);
  void start_settling(base::Time now, Outbox& out);
  void settle_when_ready(Outbox& out);

  void drop_session(Links::iterator at, Outbox& out);
  void forget(Links::iterator at, Outbox& out);
  void misbehaved(Links::iterator at, std::string text, Outbox& out);
  void refuse_or_fail(Links::iterator at, const base::Error& error, Outbox& out);
  [[nodiscard]] bool end_oldest_grace(Outbox& out);
  void break_link(Links::iterator at, base::Time now, Outbox& out);
  void bound_grace(Outbox& out);

  const Options options_;
  Pace pace_;
  base::Rng rng_;
  Links links_;
  LinkCounters gone_{};  // sums over links that are forgotten
  JobTag last_tag_ = 0;
  base::StepNumber step_;
  std::uint64_t samples_;
  double progress_;
  double neighbours_progress_ = 0;  // the largest that a neighbour has sent in a LinkOpen
  Phase phase_ = Phase::training;
  bool has_history_ = false;  // others have mixed with its replica: it does not adopt any more
  bool had_link_ = false;     // one was open
  bool company_ = false;      // of the last Company
  bool settled_ = false;
  std::optional<base::Time> settle_until_;
};

}  // namespace starling::exchange
