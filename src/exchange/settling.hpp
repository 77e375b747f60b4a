// The end of a run: after the last step, exchanges go on until neighbours agree.
#pragma once

#include <optional>

#include "base/time.hpp"
#include "exchange/events.hpp"
#include "exchange/links.hpp"
#include "exchange/timers.hpp"
#include "exchange/tree.hpp"

namespace starling::exchange {

class Settling {
 public:
  /// Looks at `links` and `tree`, which outlive this. It takes `timeout` at most.
  Settling(base::Duration timeout, const Links& links, const Tree& tree)
      : timeout_(timeout), links_(links), tree_(tree) {}

  /// The phases of a run, in their order (ASSERT). True: settling begins.
  [[nodiscard]] bool on(const Phase& phase, base::Time now);
  void on(const Company& event) noexcept { company_ = event.expected; }
  void expire(base::Time now, Outbox& out);
  /// Says so once all neighbours agree.
  void end_when_agreed(Outbox& out);

  [[nodiscard]] Phase phase() const noexcept { return phase_; }
  /// No step is made any more.
  [[nodiscard]] bool has_begun() const noexcept { return phase_ != Phase::training; }
  /// Settling has ended: this peer only answers.
  [[nodiscard]] bool is_over() const noexcept { return over_; }
  void visit_timers(const TimerVisitor& visit) const;

 private:
  void end(bool timed_out, Outbox& out);

  base::Duration timeout_;
  const Links& links_;
  const Tree& tree_;
  Phase phase_ = Phase::training;
  bool company_ = false;  // of the last Company
  bool over_ = false;
  std::optional<base::Time> until_;
};

}  // namespace starling::exchange
