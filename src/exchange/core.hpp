// Tracked link averaging as a protocol: what a peer says and does about its links, without a clock,
// a socket, a thread or a vector of parameters. Numeric work goes out as jobs (jobs.hpp).
//
// An exchange on a link: each end writes q(t), the delta of its replica, and sends it; with both
// q(t) an end commits t, and may write q(t+1) `every` own steps after q(t), or when the other end's
// has come. So one exchange is under way on a link, its faster end sets the pace, and no link waits
// for another.
//
// The core gives each event to the parts that it concerns, and lets them go on after it.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "base/bound.hpp"
#include "base/rng.hpp"
#include "base/time.hpp"
#include "exchange/events.hpp"
#include "exchange/exchanging.hpp"
#include "exchange/history.hpp"
#include "exchange/links.hpp"
#include "exchange/opening.hpp"
#include "exchange/options.hpp"
#include "exchange/settling.hpp"
#include "exchange/timers.hpp"
#include "exchange/tree.hpp"

namespace starling::exchange {

/// One peer's exchange. Not thread-safe; time never decreases. It stays where it is: its parts know
/// each other.
class Core {
 public:
  Core(const Options& options, base::Rng rng);
  Core(const Core&) = delete;
  Core& operator=(const Core&) = delete;

  /// Takes one event in and appends the actions it causes.
  void handle(Event event, base::Time now, Outbox& out);
  /// When expire() has something to do; nothing: never, as things stand.
  [[nodiscard]] std::optional<base::Time> next_deadline() const;
  void expire(base::Time now, Outbox& out);

  [[nodiscard]] std::vector<LinkStatus> links() const { return links_.status(); }
  /// The largest drift over the open links, when their last deltas were written.
  [[nodiscard]] double drift() const { return links_.drift(); }
  /// Sums over all links there ever were.
  [[nodiscard]] LinkCounters totals() const { return links_.totals(); }
  [[nodiscard]] std::size_t open_links() const { return links_.open_count(); }
  /// A neighbour's replica is being taken over: own steps until then are lost.
  [[nodiscard]] bool adopting() const { return opening_.adopting(); }
  /// This peer would take over a neighbour's replica rather than mix its own in.
  [[nodiscard]] bool may_adopt() const { return history_.may_adopt(); }
  /// Little of the run is in this replica: it was to take over another's, and no link was ever
  /// open.
  [[nodiscard]] bool never_joined() const { return history_.never_joined(); }
  /// The swarm's progress, by what this peer knows and what neighbours have sent.
  [[nodiscard]] double known_progress() const noexcept { return history_.known_progress(); }
  /// Reports everything that can grow, of a peer with that number of neighbours, and all timers:
  /// nothing is above its limit between two calls.
  void add_bounds(std::size_t neighbours, base::Bounds& out) const;
  void add_timers(base::Time now, base::Bounds& out) const;

 private:
  void on(const NeighbourUp& event, base::Time now, Outbox& out);
  void on(const NeighbourDown& event, base::Time now, Outbox& out);
  void on(Received& event, base::Time now, Outbox& out);
  void on(const Progressed& event, base::Time now, Outbox& out);
  void on(const Vouched& event, base::Time now, Outbox& out);
  void on(const Company& event, base::Time now, Outbox& out);
  void on(const Phase& phase, base::Time now, Outbox& out);
  void on(Encoded& event, base::Time now, Outbox& out);
  void on(Committed& event, base::Time now, Outbox& out);
  void on(KeyframeMade& event, base::Time now, Outbox& out);
  void on(Opened& event, base::Time now, Outbox& out);
  void on(const Audited& event, base::Time now, Outbox& out);
  void on(const KeyframeArriving& event, base::Time now, Outbox& out);
  void go_on(base::Time now, Outbox& out);
  void visit_timers(const TimerVisitor& visit) const;
  void look_at_tree(base::Time now, Outbox& out);

  Links links_;
  History history_;
  Tree tree_;
  Settling settling_;
  Exchanging exchanging_;
  Opening opening_;
};

}  // namespace starling::exchange
