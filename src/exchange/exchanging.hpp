// Exchanges on open links: when a delta is asked for and how much it carries, and when both deltas
// of an exchange are committed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/peer_id.hpp"
#include "base/strong.hpp"
#include "base/time.hpp"
#include "exchange/events.hpp"
#include "exchange/history.hpp"
#include "exchange/links.hpp"
#include "exchange/opening.hpp"
#include "exchange/options.hpp"
#include "exchange/pace.hpp"
#include "exchange/settling.hpp"
#include "exchange/timers.hpp"
#include "exchange/tree.hpp"
#include "wire/messages.hpp"

namespace starling::exchange {

class Exchanging final : public AfterOpening {
 public:
  /// `links`, `history`, `settling` and `tree` outlive this.
  Exchanging(const Options& options, Links& links, const History& history, const Settling& settling,
             Tree& tree);

  // Events. Of a message, `at` is its link, which is not in grace.
  void begin(Links::iterator at, std::optional<wire::Delta> early, base::Time now,
             Outbox& out) override;
  void resume(Links::iterator at, base::ExchangeNumber theirs, base::Time now,
              Outbox& out) override;
  void reserve_upload(Link& link, std::size_t bytes, base::Time now) override;
  /// A delta has come, from its first byte to its last in `took`, on a link that may still open.
  /// False: it is of an older round, or cannot be right, and the link has ended.
  [[nodiscard]] bool check(Links::iterator at, const wire::Delta& delta, base::Duration took,
                           Outbox& out);
  /// A delta that holds, of an open link.
  void receive(Links::iterator at, wire::Delta delta, base::Time now, Outbox& out);
  void on(const Progressed& event, base::Time now);
  /// While it heals, the own replica counts nothing in averages.
  void heal(bool heals) noexcept { heals_ = heals; }
  void on(Encoded& event, base::Time now, Outbox& out);
  void on(Committed& event, base::Time now, Outbox& out);
  /// Settling begins: no step is made any more. First the tree, by all open links.
  void begin_tree(base::Time now, Outbox& out);
  void on_settling(Outbox& out);
  void expire(base::Time now, Outbox& out);

  void visit_timers(const TimerVisitor& visit) const;

 private:
  [[nodiscard]] bool wants_delta(const base::PeerId& peer, const Session& session) const;
  [[nodiscard]] double telling(const Link& link) const;
  [[nodiscard]] bool tree_wants_delta(const base::PeerId& peer, const Session& session) const;

  void answer_if_awaited(Session& session, base::Time now);
  void request_next(const base::PeerId& peer, Link& link, base::Time now, Outbox& out);
  void request_delta(const base::PeerId& peer, Link& link, base::ExchangeNumber t, Outbox& out);
  [[nodiscard]] std::int8_t weight() const noexcept { return heals_ ? wire::kNoWeight : weight_; }
  /// The most that the other end may weigh, as far as this one can tell.
  [[nodiscard]] std::int8_t believed(const Link& link) const;
  [[nodiscard]] DeltaBudget budget(const Link& link) const;
  [[nodiscard]] double near_enough(Duty duty) const;
  [[nodiscard]] bool with_buffers(base::ExchangeNumber t) const;
  [[nodiscard]] double apart(const Encoded& event) const;
  [[nodiscard]] wire::Delta delta_of(Encoded& event, const Link& link) const;
  void commit_when_ready(const base::PeerId& peer, Link& link, base::Time now, Outbox& out);
  void commit_again(CommitJob job, base::Time now, Outbox& out);
  void reopen_differing(Links::iterator at, base::ExchangeNumber t, Outbox& out);
  void wake_links(base::Time now, Outbox& out);

  const Options options_;
  Links& links_;
  const History& history_;
  const Settling& settling_;
  Tree& tree_;
  Pace pace_;
  base::StepNumber step_;
  std::int8_t weight_;
  bool heals_ = false;
};

}  // namespace starling::exchange
