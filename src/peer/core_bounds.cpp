// What a peer's core keeps beside the limit of each, and what it waits for: each deadline stands
// here once, and nowhere else.
#include <optional>
#include <string_view>

#include "membership/limits.hpp"
#include "peer/core.hpp"

namespace starling::peer {

// Calls `visit(what, at, limit)` for each thing that it has to do at a time, at most `limit` from
// now, if at all.
template <class Visit>
void Core::visit_deadlines(const Visit& visit) const {
  if (phase_ == Phase::waiting) {
    visit("the wait for links", wait_until_, config_.membership.wait_timeout);
  }
  if (waits_for_step()) visit("the next step", pace_.next(), config_.step_interval);
  visit("the wait for peers", alone_until_, config_.require_peers);
  visit("the end of a relay that is done", stay_until_, kStayMax);
  visit("the end of a relay without links", relays_until_, kRelayAlone);
  visit("the next checkpoint", checkpoint_at_, config_.checkpoint_every);
  visit("the next row of the metrics", report_at_, kReportEvery);
  for (const auto& [link, info] : links_) {
    if (info.ready || info.closing) continue;
    visit("the wait for a hello", std::optional(info.hello_until), kHelloTimeout);
  }
}

std::optional<base::Time> Core::next_deadline() const {
  if (phase_ == Phase::done) return std::nullopt;
  base::Earliest next;
  next.add(membership_.next_deadline());
  next.add(reach_.next_deadline());
  next.add(agreement_.next_deadline());
  visit_deadlines(
      [&](std::string_view, const std::optional<base::Time>& at, base::Duration) { next.add(at); });
  return next.value();
}

void Core::add_timers(base::Time now, base::Bounds& out) const {
  visit_deadlines(
      [&](std::string_view what, const std::optional<base::Time>& at, base::Duration limit) {
        if (at) out.add_timer(what, *at, now, limit);
      });
  known_.add_timers(now, out);
  membership_.add_timers(now, out);
  reach_.add_timers(now, out);
  agreement_.add_timers(now, out);
}

void Core::add_bounds(base::Bounds& out) const {
  out.add("links", links_.size(), kConnectionsMax);
  out.add("neighbours that exchange", neighbours_.size(), membership::kReadyLinksMax);
  out.add("shards", share_.shards.size(), shards_.count());
  out.add("steps asked for", steps_outstanding_, kStepsAhead);
  out.add("evaluations asked for", evaluations_outstanding_, kEvaluationsMax);
  out.add("checkpoints asked for", saves_outstanding_, kSavesMax);
  known_.add_bounds(out);
  membership_.add_bounds(out);
  reach_.add_bounds(out);
  agreement_.add_bounds(neighbours_.size(), out);
}

}  // namespace starling::peer
