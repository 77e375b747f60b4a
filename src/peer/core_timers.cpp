// The deadlines of a peer: each stands here once, and nowhere else. And everything that it keeps,
// beside its limit.
#include <optional>
#include <string_view>

#include "membership/limits.hpp"
#include "peer/core.hpp"

namespace starling::peer {
namespace {

/// The limit of a part's own deadlines, which it tells itself.
constexpr base::Duration kOwn = base::Duration::max();

bool is_due(const std::optional<base::Time>& at, base::Time now) { return at && *at <= now; }

}  // namespace

// Calls `visit(what, at, limit, act)` for each thing that there is to do at a time, at most `limit`
// from now, if at all; `act(core, now, out)` does it. In the order in which those are done that are
// due together: each is looked at when those before it are done.
template <class Visit>
void Core::visit_timers(const Visit& visit) const {
  using base::Time;
  visit("membership", membership_.next_deadline(), kOwn,
        [](Core& core, Time now, Outbox& out) { core.expire_membership(now, out); });
  visit("reach", reach_.next_deadline(), kOwn,
        [](Core& core, Time now, Outbox& out) { core.expire_reach(now, out); });
  visit("the agreement", agreement_.next_deadline(), kOwn,
        [](Core& core, Time now, Outbox& out) { core.expire_agreement(now, out); });
  const Lifecycle::Timers& timers = lifecycle_.timers();
  visit("the wait for links", timers.wait_until, config_.membership.wait_timeout,
        [](Core& core, Time now, Outbox& out) { core.lifecycle_.end_wait(now, out); });
  links_.visit_silent([&](Time until) {
    visit("the wait for a hello", std::optional(until), kHelloTimeout,
          [](Core& core, Time now, Outbox& out) { core.links_.close_silent(now, out); });
  });
  visit("the end of a relay without links", links_.run().alone_until(), kRelayAlone,
        [](Core& core, Time now, Outbox& out) {
          core.end({EndReason::done, {}}, now, out);
        });
  visit("the wait for peers", timers.alone_until, config_.require_peers,
        [](Core& core, Time now, Outbox& out) { core.lifecycle_.end_if_alone(now, out); });
  // At once where nobody needs it as a relay any more.
  const bool is_needed = reach_.circuits().relayed() > 0;
  visit("the end of a relay that is done",
        timers.stay_until && !is_needed ? Time::min() : timers.stay_until, kStayMax,
        [](Core& core, Time now, Outbox& out) { core.lifecycle_.end_stay_if_over(now, out); });
  visit("the next step", lifecycle_.step_at(), config_.step_interval,
        [](Core& core, Time now, Outbox& out) { core.lifecycle_.next_steps(now, out); });
  visit("the next checkpoint", saving_.next_at(), config_.checkpoint_every,
        [](Core& core, Time now, Outbox& out) { core.saving_.expire(now, out); });
  visit("the next row of the metrics", timers.report_at, kReportEvery,
        [](Core& core, Time now, Outbox& out) { core.lifecycle_.report(now, out); });
}

void Core::expire(base::Time now, Outbox& out) {
  visit_timers(
      [&](std::string_view, const std::optional<base::Time>& at, base::Duration, const auto& act) {
        if (phase() != Phase::done && is_due(at, now)) act(*this, now, out);
      });
}

std::optional<base::Time> Core::next_deadline() const {
  if (phase() == Phase::done) return std::nullopt;
  base::Earliest next;
  visit_timers([&](std::string_view, const std::optional<base::Time>& at, base::Duration,
                   const auto&) { next.add(at); });
  return next.value();
}

void Core::add_timers(base::Time now, base::Bounds& out) const {
  visit_timers([&](std::string_view what, const std::optional<base::Time>& at, base::Duration limit,
                   const auto&) {
    if (at) out.add_timer(what, *at, now, limit);
  });
  known_.add_timers(now, out);
  membership_.add_timers(now, out);
  reach_.add_timers(now, out);
  agreement_.add_timers(now, out);
}

void Core::add_bounds(base::Bounds& out) const {
  out.add("links", links_.count(), kConnectionsMax);
  out.add("neighbours that exchange", neighbours_.count(), membership::kReadyLinksMax);
  out.add("checkpoints asked for", saving_.under_way(), kSavesMax);
  training_.add_bounds(out);
  known_.add_bounds(out);
  membership_.add_bounds(out);
  reach_.add_bounds(out);
  agreement_.add_bounds(neighbours_.count(), out);
}

}  // namespace starling::peer
