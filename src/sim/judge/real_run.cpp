#include "sim/judge/real_run.hpp"

#include <algorithm>
#include <iterator>
#include <variant>

#include <fmt/core.h>

#include "sim/judge/statistics.hpp"

namespace starling::sim {
namespace {

/// One view must last this long to count: tables are heard one after the other, so what looks like
/// agreement at one moment may never have existed.
constexpr double kLastingSeconds = 3;
/// Peers tell their drift one after the other: a mean over all of them takes this long.
constexpr double kDriftWindow = 5;

/// Whether the pace is measured without the real peers that the fault concerns.
bool spoils_pace(Kind kind) {
  return kind == Kind::kill || kind == Kind::stop || kind == Kind::restart || kind == Kind::leave ||
         kind == Kind::throttle;
}

}  // namespace

RealRun::RealRun(const ObservedRun& run)
    : plan_(run.plan),
      times_(fault_times(run.plan)),
      peers_(run.plan.peers.size()),
      held_up_(run.plan.peers.size()),
      verdicts_(run.plan),
      rates_(times_.last_start),
      pairs_(run.plan.scenario) {
  for (const PlannedPeer& peer : plan_.peers) held_up_[peer.number] = peer.attack.has_value();
  for (const PlannedEvent& event : plan_.events) {
    if (!spoils_pace(event.kind)) continue;
    for (const std::uint32_t peer : event.peers) held_up_[peer] = true;
  }
  for (const Observation& observation : run.observations) {
    const auto* const end = std::get_if<EndSeen>(&observation.seen);
    if (end == nullptr || end->code != 0) continue;
    peers_[end->peer].ends_itself.push_back(observation.at);
  }
  for (const Observation& observation : run.observations) {
    now_ = observation.at;
    std::visit([&](const auto& seen) { take(seen); }, observation.seen);
  }
}

void RealRun::take(const EventSeen& seen) {
  const PlannedEvent& event = plan_.events[seen.event];
  verdicts_.fault(event, seen.begins, now_);
  for (const std::uint32_t peer : event.peers) strike(peer, seen, event.kind);
}

void RealRun::strike(std::uint32_t number, const EventSeen& seen, Kind kind) {
  Peer& peer = peers_[number];
  const bool alive = peer.state == State::running || peer.state == State::stopped;
  if (kind == Kind::stop) stop(number, seen);
  if (!seen.begins || !alive) return;
  if (kind == Kind::kill) {
    if (peer.state == State::running) dies(number);
    // While it stood still, it was an open question whether it was alive.
    if (peer.state == State::stopped) verdicts_.leaves(number);
    peer.state = State::dead;
  }
  if (kind == Kind::leave) peer.leaving = true;
  if (kind == Kind::kill || kind == Kind::leave) peer.view.reset();
}

void RealRun::stop(std::uint32_t number, const EventSeen& seen) {
  Peer& peer = peers_[number];
  if (seen.begins) {
    peer.stops.insert(seen.event);
    if (peer.state != State::running) return;
    peer.state = State::stopped;
    peer.view.reset();
  } else {
    // If there was no such stop, another process was stopped.
    peer.stops.erase(seen.event);
    if (peer.state == State::stopped && peer.stops.empty()) peer.state = State::running;
  }
}

void RealRun::take(const StartSeen& seen) {
  Peer& peer = peers_[seen.peer];
  peer = {.started = now_,
          .stops = {},
          .view = {},
          .paths = {},
          .last_step = {},
          .ends_itself = std::move(peer.ends_itself)};
  peer.state = State::running;
  // With a full disk it is not back.
  if (!seen.disk_full) verdicts_.runs(seen.peer, seen.peer, now_);
}

void RealRun::take(const EndSeen& seen) {
  Peer& peer = peers_[seen.peer];
  if (over_) {
    failed_ += seen.code != 0 && !is_hostile(seen.peer) ? 1 : 0;
    return;
  }
  end_gap(seen.peer);
  if (!seen.cannot_start && seen.code != 0) {
    if (!is_hostile(seen.peer)) ++failed_;
    // An error is a death like any other.
    if (!peer.leaving) dies(seen.peer);
  } else if (!seen.cannot_start) {
    verdicts_.leaves(seen.peer);
    if (!peer.leaving) {
      ending_ = true;
      first_done_ = first_done_.value_or(now_);
      last_done_ = now_;
    }
  }
  peer.state = State::ended;
}

void RealRun::dies(std::uint32_t subject) {
  peers_[subject].view.reset();
  std::vector<std::uint32_t> observers;
  for (std::uint32_t i = 0; i < peers_.size(); ++i) {
    const auto& view = peers_[i].view;
    if (i != subject && runs(i) && view && view->held[subject] == Held::alive) {
      observers.push_back(i);
    }
  }
  verdicts_.dies(subject, observers, now_);
}

void RealRun::take(const StatusSeen& seen) {
  using enum peer::Phase;
  Peer& peer = peers_[seen.peer];
  const bool is_ending = seen.phase == settling || seen.phase == finishing || seen.phase == done;
  if (is_ending && !peer.leaving) ending_ = true;
  step(peer, seen);
  rates_.told(seen.peer, peer.started, seen.membership_bytes, now_);
  if (seen.phase == training && seen.drift && !is_hostile(seen.peer))
    drifts_.emplace_back(now_, *seen.drift);
  peer.links = seen.links;
  count_links();
}

void RealRun::step(Peer& peer, const StatusSeen& seen) {
  const bool training = seen.phase == peer::Phase::training;
  const std::optional<Step> last = peer.last_step;
  const bool more = seen.steps > (last ? last->steps : 0);
  if (!training || more) end_gap(seen.peer);
  if (!training || !more) return;
  if (last && seen.samples > last->samples && !held_up_[seen.peer]) {
    pace_.add(seen.samples - last->samples);
  }
  peer.last_step = {.at = now_, .steps = seen.steps, .samples = seen.samples};
}

// The gap ends with another step, or with an event that ends the peer's steps.
void RealRun::end_gap(std::uint32_t peer) {
  std::optional<Step>& last = peers_[peer].last_step;
  if (!last) return;
  if (!held_up_[peer]) {
    pace_.gap(now_ - last->at, plan_.peers[peer].speed * 1000 / plan_.scenario.sim.step_ms);
  }
  last.reset();
}

void RealRun::take(const MembersSeen& seen) {
  std::vector<Held> held(peers_.size(), Held::unknown);
  for (const std::uint32_t peer : seen.alive) held[peer] = Held::alive;
  for (const std::uint32_t peer : seen.dead) held[peer] = Held::dead;
  for (const std::uint32_t peer : seen.left) held[peer] = Held::left;
  std::optional<View>& view = peers_[seen.peer].view;
  const std::vector<Held> before = view ? view->held : std::vector<Held>(peers_.size());
  view = {now_, held};
  for (std::uint32_t i = 0; i < held.size(); ++i) {
    const bool known = before[i] != Held::unknown && held[i] != Held::unknown;
    if (i == seen.peer || !known || before[i] == held[i]) continue;
    changes_.change(seen.peer, i, now_);
    if (held[i] != Held::alive) held_gone(seen.peer, i, held[i]);
  }
  compare_views();
}

void RealRun::held_gone(std::uint32_t observer, std::uint32_t subject, Held held) {
  const bool says_goodbye = std::ranges::any_of(peers_[subject].ends_itself, [&](double at) {
    return at >= now_ && at - now_ <= kSettledSeconds;
  });
  // A peer that hears a goodbye before the process has ended is right.
  if (held == Held::left && runs(subject) && says_goodbye) return;
  const std::uint64_t before = verdicts_.false_deaths();
  verdicts_.held_dead(subject, observer, now_);
  if (verdicts_.false_deaths() == before) return;
  notes_.push_back(
      fmt::format("at {:.2f} s peer-{} takes peer-{} for {}, which runs and can be reached", now_,
                  observer, subject, held == Held::left ? "gone" : "dead"));
}

void RealRun::compare_views() {
  if (ending_ || now_ < times_.last) return;
  std::vector<std::uint32_t> running;
  for (std::uint32_t i = 0; i < peers_.size(); ++i) {
    // A relay that has not been asked yet does not keep others waiting.
    if (runs(i) && (!plan_.peers[i].relay || peers_[i].view)) running.push_back(i);
  }
  const bool agree = !running.empty() && std::ranges::all_of(running, [&](std::uint32_t peer) {
    const std::optional<View>& view = peers_[peer].view;
    if (!view || view->heard_at < times_.last) return false;
    std::vector<std::uint32_t> alive;
    for (std::uint32_t i = 0; i < view->held.size(); ++i) {
      if (view->held[i] == Held::alive) alive.push_back(i);
    }
    return alive == running;
  });
  if (!agree) return agree_since_.reset();
  if (!agree_since_) agree_since_ = now_;
  if (!one_view_at_ && now_ - *agree_since_ >= kLastingSeconds) one_view_at_ = agree_since_;
}

void RealRun::count_links() {
  if (views_full_at_ || now_ < times_.last_start || ending_) return;
  const std::vector<std::uint32_t> running = trainers();
  if (running.empty()) return;
  const std::size_t wanted = std::min<std::size_t>(settings_.degree, running.size() - 1);
  if (std::ranges::all_of(running, [&](auto peer) { return peers_[peer].links >= wanted; })) {
    views_full_at_ = now_;
  }
}

void RealRun::take(const LinksSeen& seen) {
  auto& paths = peers_[seen.peer].paths.emplace();
  for (const std::uint32_t other : seen.direct) paths[other] = LinkPath::direct;
  for (const std::uint32_t other : seen.circuit) paths[other] = LinkPath::circuit;
  const std::vector<std::uint32_t> running = trainers();
  const bool all_tell =
      std::ranges::all_of(running, [&](auto peer) { return peers_[peer].paths.has_value(); });
  if (now_ < times_.last_start || !all_tell) return;
  // The time in which a machine starts them says nothing about how they reach each other.
  if (!all_answer_at_) all_answer_at_ = now_;
  pairs_.look(now_ - *all_answer_at_, running,
              [&](std::uint32_t a, std::uint32_t b) { return path(a, b); });
}

/// Nothing: they do not both say that they are linked.
std::optional<LinkPath> RealRun::path(std::uint32_t a, std::uint32_t b) const {
  const auto said = [&](std::uint32_t from, std::uint32_t to) -> std::optional<LinkPath> {
    if (!peers_[from].paths) return std::nullopt;
    const auto found = peers_[from].paths->find(to);
    return found == peers_[from].paths->end() ? std::nullopt : std::optional(found->second);
  };
  const auto here = said(a, b);
  const auto there = said(b, a);
  if (!here || !there) return std::nullopt;
  return here == LinkPath::circuit ? here : there;
}

void RealRun::take(const OverSeen&) {
  for (std::uint32_t i = 0; i < peers_.size(); ++i) end_gap(i);
  verdicts_.finish(now_);
  if (!one_view_at_) one_view_at_ = agree_since_;
  over_ = true;
  if (expects(plan_.scenario, Measure::paths_within_s) && !pairs_.paths_within()) {
    for (const ExpectedPath& expected : plan_.scenario.paths) {
      const auto found = path(expected.a, expected.b);
      if (found == expected.path) continue;
      notes_.push_back(fmt::format("peer-{} and peer-{}: {}, expected: {}", expected.a, expected.b,
                                   found ? to_string(*found) : "no link",
                                   to_string(expected.path)));
    }
  }
  const auto& detections = verdicts_.detections();
  if (detections.empty()) return;
  notes_.push_back(fmt::format(
      "{} times a running peer had to notice a death: median {:.2f} s, longest {:.2f} s",
      detections.size(), *percentile(detections, 0.5), *percentile(detections, 1)));
}

void RealRun::take(const SummarySeen& seen) {
  if (!seen.done || plan_.peers[seen.peer].relay || is_hostile(seen.peer)) return;
  results_.push_back({.accuracy = seen.accuracy,
                      .loss = seen.loss,
                      .sent_bytes = static_cast<double>(seen.sent_bytes)});
  if (!seen.replica.empty()) replicas_.push_back(seen.replica);
}

bool RealRun::is_hostile(std::uint32_t peer) const { return plan_.peers[peer].attack.has_value(); }

bool RealRun::runs(std::uint32_t peer) const {
  return peers_[peer].state == State::running && !peers_[peer].leaving;
}

std::vector<std::uint32_t> RealRun::trainers() const {
  std::vector<std::uint32_t> running;
  for (std::uint32_t i = 0; i < peers_.size(); ++i) {
    if (runs(i) && !plan_.peers[i].relay && !is_hostile(i)) running.push_back(i);
  }
  return running;
}

std::optional<double> RealRun::drift_back_within() const {
  if (times_.first < 0) return std::nullopt;
  const auto at = [&](double when) {
    return std::ranges::lower_bound(drifts_, when, {},
                                    [](const auto& drift) { return drift.first; });
  };
  const auto mean_of = [](auto from, auto to) {
    std::vector<double> values;
    for (; from != to; ++from) values.push_back(from->second);
    return mean(values);
  };
  const auto before = mean_of(at(times_.first - 2 * kDriftWindow), at(times_.first));
  if (!before) return std::nullopt;
  for (auto last = at(times_.last + kDriftWindow); last != drifts_.end(); ++last) {
    const double begin = last->first - kDriftWindow;
    if (*mean_of(at(begin), std::next(last)) <= kDriftBack * *before) return begin - times_.last;
  }
  return std::nullopt;
}

Measured RealRun::measured() const {
  using enum Measure;
  const auto since = [](const std::optional<double>& at, double begin) {
    return at ? std::optional(std::max(0.0, *at - begin)) : std::nullopt;
  };
  Measured measured;
  measure_results(results_, measured);
  measured[failed_max] = failed_;
  measured[step_gap_max_s] = pace_.longest_gap();
  measured[throughput_min] = pace_.throughput(settings_.batch);
  measured[detection_p50_s] = percentile(verdicts_.detections(), 0.5);
  measured[detection_p99_s] = percentile(verdicts_.detections(), 0.99);
  measured[false_deaths_max] = static_cast<double>(verdicts_.false_deaths());
  measured[verdicts_per_minute_max] = static_cast<double>(changes_.most());
  measured[one_view_within_s] = since(one_view_at_, times_.last);
  measured[views_full_within_s] = since(views_full_at_, times_.last_start);
  measured[drift_back_within_s] = drift_back_within();
  measured[membership_bytes_per_s_max] = rates_.most();
  measured[pairs_linked_within_s] = pairs_.linked_within();
  measured[paths_within_s] = pairs_.paths_within();
  if (first_done_) measured[ends_within_s] = *last_done_ - *first_done_;
  return measured;
}

}  // namespace starling::sim
