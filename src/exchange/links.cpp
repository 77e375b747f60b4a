#include "exchange/links.hpp"

#include <algorithm>
#include <utility>

#include <fmt/core.h>

#include "base/assert.hpp"
#include "base/simulated.hpp"
#include "exchange/config.hpp"

namespace starling::exchange {

using base::PeerId;
using base::Time;

Link& Links::begin_opening(const PeerId& peer, Time now, Outbox& out) {
  auto at = links_.find(peer);
  if (at != links_.end() && at->second.broken() == nullptr) {
    // The transport has replaced a link that was still up here.
    break_link(at, now, out);
    at = links_.find(peer);
  }
  if (at == links_.end()) {
    ASSERT(links_.size() - broken_count() < kLinksMax, "the overlay bounds the links");
    return links_.emplace(peer, Link{}).first->second;
  }
  Link& link = at->second;
  link.state = Greeting{.before = std::move(link.broken()->session)};
  link.rounds = {};
  link.failed_asks = 0;
  link.ask_after.reset();
  return link;
}

void Links::on(const NeighbourDown& event, Time now, Outbox& out) {
  const auto at = links_.find(event.peer);
  if (at == links_.end()) return;
  if (event.for_good) {
    if (!SIM_BUG(left_links_kept)) forget(at, out);
  } else {
    break_link(at, now, out);
  }
}

// The own LinkOpen follows as soon as it may be sent.
void Links::new_round(iterator at, Outbox& out) {
  at->second.rounds.start();
  drop_mirrors(at, out);
  at->second.state = Greeting{};
}

void Links::drop_before(iterator at, Outbox& out) {
  auto* greeting = at->second.in<Greeting>();
  ASSERT(greeting != nullptr && greeting->before);
  drop_mirrors(at, out);
  greeting->before.reset();
}

// Also those that the link is about to have, and counts the step in doubt. What was asked for to
// open it may wait for its trainer still: closing takes it back.
void Links::drop_mirrors(iterator at, Outbox& out) {
  auto& [peer, link] = *at;
  const Session* session = link.session();
  if ((session != nullptr || link.has_opening_job()) && !SIM_BUG(close_forgotten)) {
    out.emplace_back(Run{CloseJob{peer}});
  }
  if (session != nullptr && !session->kept.empty()) ++link.counters.lost_steps;
}

void Links::forget(iterator at, Outbox& out) {
  drop_mirrors(at, out);
  gone_ += at->second.counters;
  links_.erase(at);
}

void Links::on(const Audited& event, Outbox& out) {
  for (const Audited::Finding& finding : event.findings) {
    const auto at = links_.find(finding.peer);
    if (at == links_.end()) continue;
    at->second.trust = finding.trust;
    at->second.worse = finding.worse;
    if (!finding.ends) continue;
    misbehaved(at,
               fmt::format("it pulls this peer to {:.1f} times the loss, on this peer's data",
                           finding.worse),
               out, true);
  }
}

void Links::misbehaved(iterator at, std::string text, Outbox& out, bool is_judged) {
  const PeerId peer = at->first;
  forget(at, out);
  out.emplace_back(Misbehaved{peer, std::move(text), is_judged});
}

void Links::refuse_or_fail(iterator at, const base::Error& error, Outbox& out) {
  if (error.code != base::ErrorCode::no_room) {
    out.emplace_back(Failed{error});
    return;
  }
  const PeerId peer = at->first;
  forget(at, out);
  out.emplace_back(NoRoom{peer, error.text});
}

// The mirrors of a link stay for a while if both ends have them.
void Links::break_link(iterator at, Time now, Outbox& out) {
  Link& link = at->second;
  if (link.broken() != nullptr) return;
  Session* session = link.session();
  if (session == nullptr || SIM_RARE(no_grace)) {
    forget(at, out);
    return;
  }
  if (link.open() != nullptr) out.emplace_back(Run{SuspendJob{at->first}});
  // A delta that was not sent is written anew, one that was not committed is sent again.
  session->encode_job = 0;
  session->rests = false;
  session->received.reset();
  link.committed_at.reset();
  BrokenState broken{.session = std::move(*session), .until = now + grace_};
  link.state = std::move(broken);
  if (broken_count() > (SIM_RARE(grace_of_one) ? 1 : kGraceLinksMax)) {
    static_cast<void>(end_oldest_grace(out));
  }
}

bool Links::end_oldest_grace(Outbox& out) {
  auto oldest = links_.end();
  for (auto at = links_.begin(); at != links_.end(); ++at) {
    const auto* broken = at->second.broken();
    if (broken == nullptr) continue;
    if (oldest == links_.end() || broken->until < oldest->second.broken()->until) oldest = at;
  }
  if (oldest == links_.end()) return false;
  forget(oldest, out);
  return true;
}

void Links::expire(Time now, Outbox& out) {
  for (auto at = links_.begin(); at != links_.end();) {
    const auto current = at++;
    const auto* broken = current->second.broken();
    if (broken != nullptr && broken->until <= now && !SIM_BUG(grace_for_ever)) forget(current, out);
  }
}

std::size_t Links::open_count() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(links_, [](const auto& e) { return e.second.open() != nullptr; }));
}

std::size_t Links::broken_count() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(links_, [](const auto& e) { return e.second.broken() != nullptr; }));
}

std::vector<LinkStatus> Links::status() const {
  std::vector<LinkStatus> all;
  for (const auto& [peer, link] : links_) {
    LinkStatus status{.peer = peer,
                      .bandwidth = link.line.bandwidth,
                      .drift = link.drift,
                      .density = link.density,
                      .trust = link.trust,
                      .worse = link.worse,
                      .counters = link.counters};
    if (const auto* open = link.open()) {
      status.stage = LinkStage::open;
      status.committed = open->session.committed;
    } else if (const auto* broken = link.broken()) {
      status.stage = LinkStage::broken;
      status.committed = broken->session.committed;
    }
    all.push_back(status);
  }
  return all;
}

double Links::drift() const {
  double most = 0.0;
  for (const auto& [peer, link] : links_) {
    if (link.open() != nullptr) most = std::max(most, link.drift);
  }
  return most;
}

LinkCounters Links::totals() const {
  LinkCounters total = gone_;
  for (const auto& [peer, link] : links_) total += link.counters;
  return total;
}

void Links::add_bounds(std::size_t neighbours, base::Bounds& out) const {
  std::size_t kept = 0;
  std::uint32_t rounds = 0;
  for (const auto& [peer, link] : links_) {
    if (const Session* session = link.session()) kept = std::max(kept, session->kept.size());
    rounds = std::max(rounds, link.rounds.count());
  }
  const std::size_t broken = broken_count();
  out.add("links that exchange", links_.size() - broken, std::min(neighbours, kLinksMax));
  out.add("links in grace", broken, kGraceLinksMax);
  out.add("deltas that a link keeps", kept, kKeptMax);
  out.add("openings of a link", rounds, kRoundsMax);
}

void Links::visit_timers(const TimerVisitor& visit) const {
  for (const auto& [peer, link] : links_) {
    if (const auto* broken = link.broken()) visit("the end of grace", broken->until, grace_);
  }
}

}  // namespace starling::exchange
