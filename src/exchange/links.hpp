// The links of a peer, by their other ends: how each begins, breaks, is kept for a while, and ends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/bound.hpp"
#include "base/peer_id.hpp"
#include "base/result.hpp"
#include "base/time.hpp"
#include "exchange/events.hpp"
#include "exchange/link.hpp"
#include "exchange/timers.hpp"

namespace starling::exchange {

enum class LinkStage : std::uint8_t { opening, open, broken };

struct LinkStatus {
  base::PeerId peer;
  LinkStage stage = LinkStage::opening;
  base::ExchangeNumber committed;
  double bandwidth = 0;  ///< bytes/s at which own deltas arrive; 0: not known, or too fast to tell
  double drift = 0.0;    ///< drift when the last delta was written
  double density = 0.0;  ///< density that was asked for of the last delta
  Trust trust{};
  double worse = 1;  ///< as Audited::Finding::worse
  LinkCounters counters;
};

class Links {
 public:
  using Map = std::map<base::PeerId, Link>;
  using iterator = Map::iterator;

  /// A broken link keeps its mirrors for `grace`.
  explicit Links(base::Duration grace) : grace_(grace) {}

  [[nodiscard]] iterator begin() noexcept { return links_.begin(); }
  [[nodiscard]] iterator end() noexcept { return links_.end(); }
  [[nodiscard]] Map::const_iterator begin() const noexcept { return links_.begin(); }
  [[nodiscard]] Map::const_iterator end() const noexcept { return links_.end(); }
  [[nodiscard]] iterator find(const base::PeerId& peer) { return links_.find(peer); }
  /// A tag for a job of any link; no other job has it.
  [[nodiscard]] JobTag next_tag() noexcept { return ++last_tag_; }

  // The life of a link.
  /// The link, which begins to open: with the mirrors that it has, or without any.
  Link& begin_opening(const base::PeerId& peer, base::Time now, Outbox& out);
  void on(const NeighbourDown& event, base::Time now, Outbox& out);
  void on(const Audited& event, Outbox& out);
  /// Starts the opening again, without mirrors. It is the turn of this end (ASSERT).
  void new_round(iterator at, Outbox& out);
  /// Frees the mirrors that a link which opens had as it broke (ASSERT).
  void drop_before(iterator at, Outbox& out);
  /// Ends the link, and frees its mirrors.
  void forget(iterator at, Outbox& out);
  /// The other end's fault: ends the link.
  void misbehaved(iterator at, std::string text, Outbox& out, bool is_judged = false);
  /// A job failed for a reason of this end. Where it had no room, this link ends and others go on;
  /// else the peer cannot go on.
  void refuse_or_fail(iterator at, const base::Error& error, Outbox& out);
  /// Frees the mirrors of the link that broke first; false where none is in grace.
  [[nodiscard]] bool end_oldest_grace(Outbox& out);
  void expire(base::Time now, Outbox& out);

  // State.
  [[nodiscard]] std::size_t open_count() const;
  [[nodiscard]] std::vector<LinkStatus> status() const;
  /// The largest drift over the open links, when their last deltas were written.
  [[nodiscard]] double drift() const;
  /// Sums over all links there ever were.
  [[nodiscard]] LinkCounters totals() const;
  void add_bounds(std::size_t neighbours, base::Bounds& out) const;
  void visit_timers(const TimerVisitor& visit) const;

 private:
  [[nodiscard]] std::size_t broken_count() const;
  void drop_mirrors(iterator at, Outbox& out);
  void break_link(iterator at, base::Time now, Outbox& out);

  base::Duration grace_;
  Map links_;
  LinkCounters gone_{};  // sums over links that are forgotten
  JobTag last_tag_ = 0;
};

}  // namespace starling::exchange
