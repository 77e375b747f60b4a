#include "exchange/settling.hpp"

#include <algorithm>
#include <utility>

#include "base/assert.hpp"
#include "base/simulated.hpp"

namespace starling::exchange {

using base::Duration;
using base::PeerId;
using base::Time;

namespace {

/// A link has come further when its ends are nearer by this factor: not by the noise of a look.
constexpr double kNearer = 0.9;
/// Exchanges, and deltas on their way, that may take as long as usual.
constexpr double kUsual = 2.0;

bool has_settled(const Link& link) {
  return link.open() != nullptr && link.open()->session.settled;
}

/// Also where the commit is still under way: the other end may have made it, and be gone by then.
bool has_agreed(const Link& link) {
  const Session* session = link.session();
  return session != nullptr && (session->both_settling || session->effect == Effect::takes ||
                                session->effect == Effect::spreads);
}

/// Beyond near enough, nothing is nearer.
double distance(const Link& link) { return std::max(link.apart, 1.0); }

// A neighbour that still trains cannot come nearer: its exchanges are all that it can give.
bool has_come_further(const Link& link) {
  if (has_settled(link)) return !link.approach.settled;
  if (link.counters.exchanges == link.approach.exchanges) return false;
  return !link.settles || distance(link) < kNearer * link.approach.distance;
}

LeftOutFor reason(const Link& link, bool by_tree) {
  if (link.broken() != nullptr) return LeftOutFor::lost;
  if (by_tree) return LeftOutFor::late;
  if (link.open() == nullptr) return LeftOutFor::unopened;
  if (link.counters.exchanges == link.approach.exchanges) return LeftOutFor::silent;
  return link.apart < 1.0 ? LeftOutFor::disagrees : LeftOutFor::apart;
}

}  // namespace

Duration patience_with(const Link& link) {
  const auto [there, back] = link.seconds_for(static_cast<double>(link.line.bytes));
  const double seconds = link.between_commits.value().value_or(0) + there + back;
  return link.held_for +
         base::from_seconds(std::min(kUsual * seconds, base::seconds(kUploadTimeMax)));
}

bool Settling::on(const Phase& phase, Time now) {
  ASSERT(phase >= phase_, "a run does not go back");
  if (phase == phase_) return false;
  phase_ = phase;
  if (phase != Phase::settling) return false;
  until_ = now + timeout_;
  return true;
}

void Settling::expire(Time now, Outbox& out) {
  if (until_ && *until_ <= now && !over_) end(out);
}

void Settling::look(Time now, Outbox& out) {
  if (phase_ != Phase::settling || over_) return;
  note(now);
  const bool agrees =
      !is_alone() && (tree_.is_on() ? tree_.is_done() : awaits_none()) && !SIM_RARE(settle_slowly);
  const auto late_at = this->late_at();
  const bool is_late = late_at && *late_at <= now;
  if ((!agrees && !is_late && !SIM_BUG(settled_at_once)) || SIM_BUG(settled_never)) return;
  end(out);
}

// What has come about since the last look, and whether it brought any link further. Then all may
// take their time again: what they are told may be new.
void Settling::note(Time now) {
  bool moves = !by_links_ && !tree_.is_on();
  by_links_ = !tree_.is_on();
  agreed_ = agreed_ || tree_.is_done();
  for (const auto& [peer, link] : links_) {
    agreed_ = agreed_ || has_agreed(link);
    moves = moves || (by_links_ && has_come_further(link));
  }
  if (!moves) return;
  moved_at_ = now;
  for (auto& [peer, link] : links_) {
    link.approach = {.settled = link.approach.settled || has_settled(link),
                     .distance = distance(link),
                     .exchanges = link.counters.exchanges};
  }
}

// A peer that lost a link does not wait for that neighbour. One that lost all waits for any: what
// its last deltas left out, nobody has been told.
bool Settling::is_alone() const {
  return company_ && links_.open_count() == 0 && !SIM_BUG(settled_alone);
}

// Along the tree, those in it are in agreement when it is done. Others may be in it by other links,
// unless they begin to settle only now.
bool Settling::is_awaited(const PeerId& peer, const Link& link) const {
  if (link.broken() != nullptr || has_settled(link)) return false;
  return !tree_.is_done() || (!tree_.includes(peer) && link.settles);
}

bool Settling::awaits_none() const {
  return std::ranges::none_of(
      links_, [this](const auto& entry) { return is_awaited(entry.first, entry.second); });
}

// When the last of those that are awaited is late, if nothing comes further. Nothing: they may take
// all the time that there is, since nobody has agreed yet, or the tree is not given up.
std::optional<Time> Settling::late_at() const {
  if (phase_ != Phase::settling || over_ || !agreed_ || !by_links_ || SIM_BUG(settled_never)) {
    return std::nullopt;
  }
  std::optional<Time> last;
  if (is_alone()) last = moved_at_ + kLateAfter;
  for (const auto& [peer, link] : std::as_const(links_)) {
    if (!is_awaited(peer, link)) continue;
    const Time late = std::max(moved_at_, link.heard_at) + kLateAfter + patience_with(link);
    last = std::max(last.value_or(late), late);
  }
  return last ? std::optional(std::min(*last, *until_)) : std::nullopt;
}

void Settling::end(Outbox& out) {
  over_ = true;
  Settled settled{};
  bool others = others_ended_ || company_;
  for (const auto& [peer, link] : std::as_const(links_)) {
    others = others || link.broken() == nullptr;
    const bool lost = link.broken() != nullptr && !has_agreed(link);
    if (lost || is_awaited(peer, link)) {
      settled.left_out.push_back({peer, reason(link, tree_.is_done())});
    }
  }
  settled.unsettled = others && !agreed_;
  out.emplace_back(std::move(settled));
}

void Settling::visit_timers(const TimerVisitor& visit) const {
  if (over_) return;
  visit("the end of settling", until_, timeout_);
  visit("the wait for neighbours that are late", late_at(), timeout_);
}

}  // namespace starling::exchange
