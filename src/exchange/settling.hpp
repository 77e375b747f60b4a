// The end of a run: after the last step, exchanges go on until neighbours agree. A neighbour that
// brings its link no further is left out when all others have settled.
#pragma once

#include <optional>

#include "base/time.hpp"
#include "exchange/events.hpp"
#include "exchange/links.hpp"
#include "exchange/timers.hpp"
#include "exchange/tree.hpp"

namespace starling::exchange {

/// Where at least one neighbour has agreed and no link has come any further for so long, the others
/// are left out; on top comes what their links need (patience_with()). Peers without such a
/// neighbour end at once, and the others are to end within 3 s of them: the rest is for messages
/// under way.
inline constexpr base::Duration kLateAfter = std::chrono::seconds(2);

/// Time in which a link may rightly come no further: two exchanges, as long as they took so far,
/// with the last delta's way there and back; and while the upload limit holds back the own delta.
[[nodiscard]] base::Duration patience_with(const Link& link);

class Settling {
 public:
  /// Looks at `links` and `tree`, which outlive this, and notes at each link how it comes along. It
  /// takes `timeout` at most.
  Settling(base::Duration timeout, Links& links, const Tree& tree)
      : timeout_(timeout), links_(links), tree_(tree) {}

  /// The phases of a run, in their order (ASSERT). True: settling begins.
  [[nodiscard]] bool on(const Phase& phase, base::Time now);
  void on(const Company& event) noexcept { company_ = event.expected; }
  /// Before the link is gone.
  void on(const NeighbourDown& event) noexcept { others_ended_ = others_ended_ || event.done; }
  void expire(base::Time now, Outbox& out);
  /// After each event. Says so once all neighbours agree, or those that do not are late.
  void look(base::Time now, Outbox& out);

  [[nodiscard]] Phase phase() const noexcept { return phase_; }
  /// No step is made any more.
  [[nodiscard]] bool has_begun() const noexcept { return phase_ != Phase::training; }
  /// Settling has ended: this peer only answers.
  [[nodiscard]] bool is_over() const noexcept { return over_; }
  void visit_timers(const TimerVisitor& visit) const;

 private:
  void note(base::Time now);
  [[nodiscard]] bool is_alone() const;
  [[nodiscard]] bool is_awaited(const base::PeerId& peer, const Link& link) const;
  [[nodiscard]] bool awaits_none() const;
  [[nodiscard]] std::optional<base::Time> late_at() const;
  void end(Outbox& out);

  base::Duration timeout_;
  Links& links_;
  const Tree& tree_;
  Phase phase_ = Phase::training;
  bool company_ = false;       // of the last Company
  bool others_ended_ = false;  // a neighbour has ended its run
  bool agreed_ = false;        // with a neighbour, at least once
  bool by_links_ = false;      // the tree is given up, or there was none
  base::Time moved_at_{};      // when a link came further last
  bool over_ = false;
  std::optional<base::Time> until_;
};

}  // namespace starling::exchange
