#include "exchange/settling.hpp"

#include <algorithm>

#include "base/assert.hpp"
#include "base/simulated.hpp"

namespace starling::exchange {

using base::Time;

bool Settling::on(const Phase& phase, Time now) {
  ASSERT(phase >= phase_, "a run does not go back");
  if (phase == phase_) return false;
  phase_ = phase;
  if (phase != Phase::settling) return false;
  until_ = now + timeout_;
  return true;
}

void Settling::expire(Time now, Outbox& out) {
  if (until_ && *until_ <= now && !over_) end(true, out);
}

void Settling::end_when_agreed(Outbox& out) {
  if (phase_ != Phase::settling || over_) return;
  // A peer that lost a link does not wait for that neighbour. One that lost all waits for any:
  // what its last deltas left out, nobody has been told.
  const bool alone = links_.open_count() == 0 && company_ && !SIM_BUG(settled_alone);
  const bool agreed = !alone && std::ranges::all_of(links_, [](const auto& entry) {
    const Link& link = entry.second;
    return link.broken() != nullptr || (link.open() != nullptr && link.open()->session.settled);
  });
  const bool by_tree = tree_.is_on() && !alone;
  if (!(by_tree ? tree_.is_done() : agreed) && !SIM_BUG(settled_at_once)) return;
  if (SIM_BUG(settled_never) || SIM_RARE(settle_slowly)) return;
  end(false, out);
}

void Settling::end(bool timed_out, Outbox& out) {
  over_ = true;
  out.emplace_back(Settled{.timed_out = timed_out});
}

void Settling::visit_timers(const TimerVisitor& visit) const {
  if (!over_) visit("the end of settling", until_, timeout_);
}

}  // namespace starling::exchange
