#include "swarm.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/core.h>

#include "base/assert.hpp"

namespace starling::exchange::test {
namespace {

using base::Duration;
using base::PeerId;
using base::Time;
using std::chrono::microseconds;

constexpr std::uint64_t kBatch = 32;

PeerId id_of(std::size_t number) {
  PeerId id;
  id.bytes[0] = static_cast<std::uint8_t>(number + 1);
  return id;
}

}  // namespace

Swarm::Peer::Peer(std::size_t at, const Options& options, std::span<const float> initial,
                  base::Rng rng)
    : number(at),
      id(id_of(at)),
      core(options, rng),
      replica(initial, static_cast<float>(options.config.lambda),
              {std::vector<float>(options.buffers, 1.0F), std::vector<float>(options.buffers)}),
      moved(initial.size(), 0.0) {}

Swarm::Swarm(const SwarmOptions& options) : options_(options), rng_(options.seed) {
  for (std::size_t i = 0; i < options.elements; ++i) {
    initial_.push_back(static_cast<float>(rng_.uniform() - 0.5));
  }
}

std::size_t Swarm::add(Duration step_time, bool has_state) {
  const std::size_t i = peers_.size();
  const Options options{.config = options_.config,
                        .elements = options_.elements,
                        .buffers = options_.buffers,
                        .samples_target = options_.samples_target,
                        .has_state = has_state};
  peers_.push_back(std::make_unique<Peer>(i, options, initial_, rng_.fork()));
  peers_.back()->step_time = step_time;
  network_.after(step_time, [this, i] { boundary(i); });
  return i;
}

void Swarm::connect(std::size_t a, std::size_t b, Duration delay) {
  if (const auto former = place_of(a, b)) {
    for (const auto& end : {*former, former->across()}) network_.close(end);
  }
  const std::size_t connection = network_.connect(a, b);
  for (const auto& pair : {std::pair(a, b), std::pair(b, a)}) wires_[pair] = {connection, delay};
  // The end that asked learns of it last; the other end's first LinkOpen may overtake nothing.
  give(a, NeighbourUp{id_of(b)});
  network_.after({}, [this, a, b, connection] {
    if (network_.end({connection, 1}).open) give(b, NeighbourUp{id_of(a)});
  });
}

void Swarm::cut(std::size_t a, std::size_t b, bool for_good) {
  const auto place = place_of(a, b);
  if (!place) return;
  for (const auto& end : {*place, place->across()}) network_.close(end);
  give(a, NeighbourDown{id_of(b), for_good});
  give(b, NeighbourDown{id_of(a), for_good});
}

void Swarm::set_phase(Phase phase) {
  for (std::size_t i = 0; i < size(); ++i) set_phase(i, phase);
}

void Swarm::set_phase(std::size_t i, Phase phase) {
  peer(i).phase = phase;
  give(i, phase);
}

void Swarm::set_progress(double progress) {
  for (std::size_t i = 0; i < size(); ++i) {
    peer(i).progress = progress;
    give(i, Progressed{peer(i).step, peer(i).samples, progress});
  }
}

void Swarm::run_for(Duration duration) { network_.run_until(now() + duration); }

void Swarm::at_step(std::function<void(std::size_t, std::span<float>)> local_update) {
  local_update_ = std::move(local_update);
}

std::vector<float> Swarm::x(std::size_t i) const {
  std::vector<float> values(options_.elements);
  peers_[i]->replica.read(values);
  return values;
}

std::uint64_t Swarm::committed(std::size_t a, std::size_t b) const {
  const auto found = ends_.find({a, b});
  return found == ends_.end() ? 0 : found->second.committed;
}

double Swarm::spread() const {
  std::vector<double> mean(options_.elements, 0.0);
  for (std::size_t i = 0; i < size(); ++i) {
    const auto values = x(i);
    for (std::size_t e = 0; e < mean.size(); ++e) {
      mean[e] += static_cast<double>(values[e]) / static_cast<double>(size());
    }
  }
  double norm = 0.0;
  for (const double value : mean) norm += value * value;
  double most = 0.0;
  for (std::size_t i = 0; i < size(); ++i) {
    const auto values = x(i);
    double away = 0.0;
    for (std::size_t e = 0; e < mean.size(); ++e) {
      const double d = static_cast<double>(values[e]) - mean[e];
      away += d * d;
    }
    most = std::max(most, std::sqrt(away / norm));
  }
  return most;
}

double Swarm::ledger_error() const {
  std::vector<double> balance(options_.elements, 0.0);
  for (std::size_t i = 0; i < size(); ++i) {
    const auto values = x(i);
    for (std::size_t e = 0; e < balance.size(); ++e) {
      balance[e] +=
          static_cast<double>(values[e]) - static_cast<double>(initial_[e]) - peers_[i]->moved[e];
    }
  }
  double most = 0.0;
  for (const double error : balance) most = std::max(most, std::fabs(error));
  return most;
}

std::optional<Swarm::Network::Place> Swarm::place_of(std::size_t from, std::size_t to) const {
  const auto wire = wires_.find({from, to});
  if (wire == wires_.end()) return std::nullopt;
  const std::size_t connection = wire->second.connection;
  const Network::Place place{connection, network_.end({connection, 0}).peer == from ? 0 : 1};
  return network_.end(place).open ? std::optional(place) : std::nullopt;
}

void Swarm::give(std::size_t i, Event event) {
  Outbox out;
  peer(i).core.handle(std::move(event), now(), out);
  act(i, out);
}

void Swarm::act(std::size_t i, Outbox& out) {
  for (Action& action : out) {
    if (const auto* message = std::get_if<Send>(&action)) {
      send(i, *message);
    } else if (auto* run = std::get_if<Run>(&action)) {
      hand_over(i, std::move(run->job));
    } else if (const auto* bad = std::get_if<Misbehaved>(&action)) {
      broken_rules_.push_back(fmt::format("{} reports {}: {}", i, number_of(bad->peer), bad->text));
      cut(i, number_of(bad->peer), true);
    } else if (const auto* settled = std::get_if<Settled>(&action)) {
      if (peer(i).settled) broken_rules_.push_back(fmt::format("{} settles twice", i));
      peer(i).settled = *settled;
      peer(i).settled_at = now();
    } else if (const auto* failed = std::get_if<Failed>(&action)) {
      broken_rules_.push_back(fmt::format("{} fails: {}", i, failed->error.text));
    }
  }
  // One wake-up for each deadline that is seen is enough: expire() may come at any time.
  if (const auto deadline = peer(i).core.next_deadline()) {
    network_.at(std::max(*deadline, now()), [this, i] {
      const auto due = peer(i).core.next_deadline();
      if (!due || *due > now()) return;
      Outbox more;
      peer(i).core.expire(now(), more);
      const auto next = peer(i).core.next_deadline();
      if (next && *next <= now()) broken_rules_.push_back(fmt::format("{} has not expired", i));
      act(i, more);
    });
  }
}

// As between a peer's threads: jobs wait at the port first, where later ones make some needless.
void Swarm::hand_over(std::size_t i, Job job) {
  auto& port = peer(i).port;
  if (!make_room(port, job, [](const Job& item) { return &item; })) return;
  const PeerId other = peer_of(job);
  port.push_back(std::move(job));
  const auto waiting =
      std::ranges::count_if(port, [&](const Job& item) { return peer_of(item) == other; });
  if (static_cast<std::size_t>(waiting) > kLinkJobsMax) {
    broken_rules_.push_back(fmt::format("{} jobs of a link wait at {}", waiting, i));
  }
}

void Swarm::send(std::size_t from, const Send& action) {
  const std::size_t to = number_of(action.peer);
  const auto place = place_of(from, to);
  if (!place) return;
  wire::Message message = action.message;
  if (tamper && !tamper(from, to, message)) return;
  const Duration delay = wires_.at({from, to}).delay;
  const auto spread = static_cast<double>(delay.count()) * rng_.uniform();
  const Duration takes = delay + Duration(static_cast<Duration::rep>(spread));
  network_.carry(*place, takes, [this, from, to, message = std::move(message)] {
    Received event{.peer = id_of(from), .message = {}};
    if (const auto* open = std::get_if<wire::LinkOpen>(&message)) {
      event.message = *open;
    } else if (const auto* delta = std::get_if<wire::Delta>(&message)) {
      event.message = *delta;
    } else if (const auto* settle = std::get_if<wire::Settle>(&message)) {
      event.message = *settle;
    } else {
      event.message = std::get<wire::Keyframe>(message);
    }
    give(to, std::move(event));
  });
}

// The trainer between two steps: a local update, then the jobs that are due.
void Swarm::boundary(std::size_t i) {
  Peer& self = peer(i);
  if (self.phase == Phase::training && !self.core.adopting()) {
    const std::vector<float> before(self.replica.trained().begin(), self.replica.trained().end());
    const auto x_before = x(i);
    if (local_update_) local_update_(i, self.replica.trained());
    const auto x_after = x(i);
    for (std::size_t e = 0; e < x_after.size(); ++e) {
      self.moved[e] += static_cast<double>(x_after[e]) - static_cast<double>(x_before[e]);
    }
    ++self.step;
    self.samples += kBatch;
    give(i, Progressed{self.step, self.samples, self.progress});
  }
  run_due(i);
  const double jitter = 0.75 + 0.5 * rng_.uniform();
  const double wait = static_cast<double>(self.step_time.count()) * jitter;
  network_.after(Duration(static_cast<Duration::rep>(wait)), [this, i] { boundary(i); });
}

void Swarm::run_due(std::size_t i) {
  Peer& self = peer(i);
  // Now and then the owner comes before all of them are there.
  for (auto& port = self.port; !port.empty() && rng_.below(20) != 0; port.pop_front()) {
    self.jobs.push(std::move(port.front()));
  }
  const std::vector<Job> jobs = self.jobs.take(self.step);
  if (jobs.empty()) return;
  std::vector<Outcome> outcomes;
  const bool opens = std::ranges::any_of(jobs, [](const Job& job) {
    return !std::holds_alternative<EncodeJob>(job) && !std::holds_alternative<CommitJob>(job);
  });
  if (!opens) {
    outcomes = run_batch(jobs, self.replica, self.step);
    for (const Job& job : jobs) {
      for (const Outcome& outcome : outcomes) {
        const auto* done = std::get_if<Committed>(&outcome);
        const auto* commit = std::get_if<CommitJob>(&job);
        if (done != nullptr && commit != nullptr && done->tag == commit->tag) {
          note(i, job, &outcome);
        }
      }
    }
  } else {
    for (const Job& job : jobs) {
      const auto x_before = x(i);
      const auto outcome = run(job, self.replica, self.step);
      const auto* open = std::get_if<OpenJob>(&job);
      if (open != nullptr && open->decision == OpenDecision::adopt) {
        const auto x_after = x(i);
        for (std::size_t e = 0; e < x_after.size(); ++e) {
          self.moved[e] += static_cast<double>(x_after[e]) - static_cast<double>(x_before[e]);
        }
      }
      note(i, job, outcome ? &*outcome : nullptr);
      if (outcome) outcomes.push_back(*outcome);
    }
  }
  // The loop thread hears of it a little later, in order.
  for (Outcome& outcome : outcomes) {
    self.last_outcome = std::max(self.last_outcome, now() + microseconds(rng_.below(2000)));
    network_.at(self.last_outcome,
                [this, i, event = event_of(std::move(outcome))] { give(i, event); });
  }
}

// The rules that hold at every commit: exchanges count up by one, and mirrors of the same
// exchange are the same bits at both ends.
void Swarm::note(std::size_t i, const Job& job, const Outcome* outcome) {
  const std::size_t j = number_of(peer_of(job));
  End& end = ends_[{i, j}];
  if (const auto* opened = outcome ? std::get_if<Opened>(outcome) : nullptr) {
    if (!opened->status) return;
    ++end.opened;
    end.committed = 0;
  } else if (const auto* commit = outcome ? std::get_if<Committed>(outcome) : nullptr) {
    if (commit->result != CommitResult::applied) return;
    if (commit->exchange.value != end.committed + 1) {
      broken_rules_.push_back(fmt::format("{} commits exchange {} of its link with {} after {}", i,
                                          commit->exchange.value, j, end.committed));
    }
    end.committed = commit->exchange.value;
    ++commits_;
  } else {
    return;
  }
  compare(i, j);
}

void Swarm::compare(std::size_t i, std::size_t j) {
  const End& here = ends_[{i, j}];
  const End& there = ends_[{j, i}];
  if (here.opened != there.opened || here.committed != there.committed) return;
  Replica& a = peer(i).replica;
  Replica& b = peer(j).replica;
  if (!a.has(id_of(j)) || !b.has(id_of(i))) return;
  ++compared_;
  if (a.mirror_hash(id_of(j), MirrorOf::mine) != b.mirror_hash(id_of(i), MirrorOf::theirs) ||
      a.mirror_hash(id_of(j), MirrorOf::theirs) != b.mirror_hash(id_of(i), MirrorOf::mine)) {
    broken_rules_.push_back(
        fmt::format("mirrors of {} and {} differ after exchange {}", i, j, here.committed));
  }
}

std::size_t Swarm::number_of(const PeerId& id) const {
  ASSERT(id.bytes[0] >= 1 && id.bytes[0] <= size());
  return id.bytes[0] - std::size_t{1};
}

}  // namespace starling::exchange::test
