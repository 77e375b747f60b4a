#include "sim/judge/verdicts.hpp"

#include <algorithm>

namespace starling::sim {
namespace {

/// Faults that keep a process from being judged while they last. One with a slow processor still
/// answers.
bool holds_up(Kind kind) { return kind == Kind::stop || kind == Kind::skew || kind == Kind::twin; }

bool cuts(const PlannedEvent& event) {
  return cuts_paths(event.kind) ||
         (event.kind == Kind::degrade && event.conditions.loss.value_or(0) >= kLossOfNoPath);
}

bool has(const std::vector<std::uint32_t>& rising, std::uint32_t peer) {
  return std::ranges::binary_search(rising, peer);
}

bool concerns(const PlannedEvent& event, std::uint32_t a, std::uint32_t b) {
  return std::ranges::any_of(event.paths, [&](const Paths& paths) {
    return (has(paths.from, a) && has(paths.to, b)) || (has(paths.from, b) && has(paths.to, a));
  });
}

}  // namespace

void Verdicts::runs(std::uint32_t subject, std::uint32_t peer, double now) {
  if (subject >= subjects_.size()) subjects_.resize(subject + 1);
  // A peer that has not noticed the death by now never will.
  const auto first = pending_.lower_bound({subject, 0});
  const auto last = pending_.lower_bound({subject + 1, 0});
  for (auto at = first; at != last; ++at) unnoticed(at->second, now);
  pending_.erase(first, last);
  subjects_[subject].peer = peer;
  subjects_[subject].since = now;
  runs_[peer] = subject;
}

void Verdicts::leaves(std::uint32_t subject) {
  subjects_[subject].since.reset();
  forget(subject);
}

void Verdicts::dies(std::uint32_t subject, std::span<const std::uint32_t> observers, double now) {
  leaves(subject);
  const std::uint32_t peer = subjects_[subject].peer;
  for (const std::uint32_t observer : observers) {
    const Subject& by = subjects_[observer];
    if (!by.since || held_up_.any(by.peer)) continue;
    // A peer that is cut off from it, and from others too, may have no source to hear it from.
    if (apart(peer, by.peer, now) && disconnected(by.peer)) continue;
    pending_.emplace(std::pair(subject, observer), now);
  }
}

void Verdicts::fault(const PlannedEvent& event, bool begins, double now) {
  faults_ += begins && event.kind != Kind::join ? 1 : 0;
  std::erase_if(cuts_,
                [&](const Cut& cut) { return cut.until && now - *cut.until > kSettledSeconds; });
  if (cuts(event)) {
    if (begins) {
      cuts_.push_back({&event, {}});
    } else {
      std::ranges::find(cuts_, &event, &Cut::event)->until = now;
    }
  }
  for (const std::uint32_t peer : event.peers) {
    const std::optional<std::uint32_t>& subject = runs_[peer];
    if (begins && event.kind == Kind::leave && subject) leaves(*subject);
    if (!holds_up(event.kind)) continue;
    if (begins) {
      held_up_.begin(peer);
      if (subject) forget(*subject);
    } else {
      held_up_.end(peer, now);
    }
  }
}

void Verdicts::held_dead(std::uint32_t subject, std::uint32_t observer, double now) {
  if (subject >= subjects_.size()) return;  // it has not started, as far as is known here
  const auto died = pending_.find({subject, observer});
  if (died != pending_.end()) {
    detections_.push_back(now - died->second);
    pending_.erase(died);
  }
  Subject& held = subjects_[subject];
  if (!settled(subject, now) || !settled(observer, now)) return;
  if (apart(held.peer, subjects_[observer].peer, now - kSettledSeconds)) return;
  if (!any_cut(now - kSettledSeconds)) ++false_verdicts_;
  if (held.false_once == faults_) return;
  held.false_once = faults_;
  ++false_deaths_;
}

void Verdicts::finish(double now) {
  for (const auto& [pair, died] : pending_) unnoticed(died, now);
  pending_.clear();
}

// In so short a time nobody can have noticed it: that does not show how fast peers are.
void Verdicts::unnoticed(double died, double now) {
  if (now - died >= kSettledSeconds) detections_.push_back(now - died);
}

/// Whether it has run for long enough without being held up.
bool Verdicts::settled(std::uint32_t subject, double now) const {
  const Subject& one = subjects_[subject];
  if (!one.since || held_up_.any(one.peer)) return false;
  return now - std::max(*one.since, held_up_.over_since(one.peer)) >= kSettledSeconds;
}

/// Whether at some time after `since` nothing passed from one to the other, or back.
bool Verdicts::apart(std::uint32_t a, std::uint32_t b, double since) const {
  const double loss = std::max(paths_.state(a, b).loss, paths_.state(b, a).loss);
  if (loss >= kLossOfNoPath) return true;
  return std::ranges::any_of(cuts_, [&](const Cut& cut) {
    return (!cut.until || *cut.until > since) && concerns(*cut.event, a, b);
  });
}

/// Whether there was a cut after `since`.
bool Verdicts::any_cut(double since) const {
  return std::ranges::any_of(cuts_,
                             [&](const Cut& cut) { return !cut.until || *cut.until > since; });
}

bool Verdicts::disconnected(std::uint32_t peer) const {
  return std::ranges::any_of(
      cuts_, [&](const Cut& cut) { return !cut.until && has(cut.event->peers, peer); });
}

void Verdicts::forget(std::uint32_t observer) {
  std::erase_if(pending_, [&](const auto& entry) { return entry.first.second == observer; });
}

}  // namespace starling::sim
