#include "sim/worker.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include <fmt/core.h>

#include "base/assert.hpp"
#include "delta/codec.hpp"
#include "peer/core.hpp"

namespace starling::sim {
namespace {

// Virtual time, beside that of a step.
constexpr base::Duration kSaveTime = std::chrono::milliseconds(30);
constexpr base::Duration kLeast = std::chrono::microseconds(20);
constexpr auto kProtocol = base::ErrorCode::protocol;

/// Of an exchange's jobs, those after which a link's mirrors are others.
bool sets_mirrors(const exchange::Job& job) {
  return std::holds_alternative<exchange::OpenJob>(job) ||
         std::holds_alternative<exchange::CloseJob>(job) ||
         std::holds_alternative<exchange::CommitJob>(job);
}

/// Beside commits these alone move the replica.
bool adopts(const exchange::Job& job) {
  const auto* open = std::get_if<exchange::OpenJob>(&job);
  return open != nullptr && open->decision == exchange::OpenDecision::adopt;
}

/// Commits that were applied.
std::set<exchange::JobTag> applied_of(const std::vector<exchange::Outcome>& outcomes) {
  std::set<exchange::JobTag> applied;
  for (const exchange::Outcome& outcome : outcomes) {
    const auto* done = std::get_if<exchange::Committed>(&outcome);
    if (done == nullptr || done->result != exchange::CommitResult::applied) continue;
    applied.insert(done->tag);
  }
  return applied;
}

}  // namespace

Worker::Worker(std::unique_ptr<Learner> learner, exchange::Replica replica, Folder& folder,
               base::StepNumber first_step, std::uint64_t first_samples, base::Duration step,
               std::uint32_t batch)
    : learner_(std::move(learner)),
      replica_(std::move(replica)),
      folder_(folder),
      step_(first_step),
      samples_(first_samples),
      step_time_(step),
      whole_batch_(batch),
      batch_(batch) {
  if (const Checkpoint* saved = folder_.newest_whole(); saved != nullptr) {
    ASSERT(saved->step == first_step);
    std::ranges::copy(saved->parameters, replica_.trained().begin());
    const auto taken = replica_.buffers().set(saved->buffers, base::ErrorCode::data);
    ASSERT(taken.has_value(), "whole checkpoints hold what was saved");
    learner_->restore(saved->state);
  }
}

void Worker::submit(peer::Job job) {
  if (const auto* shards = std::get_if<peer::ShardsJob>(&job)) {
    shards_ = shards->owned;
    batch_ = shards->batch;
    learner_->set_data(shards_, batch_);
  } else if (auto* exchange = std::get_if<exchange::Job>(&job)) {
    exchange_jobs_.push(std::move(*exchange));
  } else {
    jobs_.push_back(std::move(job));
  }
}

void Worker::add_bounds(base::Bounds& out) const {
  out.add("jobs of training", jobs_.size(), peer::kTrainingJobsMax);
  out.add("jobs of the exchange", exchange_jobs_.size(), exchange::kJobsMax);
  out.add("links in the ledger", ledger_.size(), exchange::kLinksMax + exchange::kGraceLinksMax);
}

std::optional<base::Duration> Worker::begin() {
  ASSERT(!busy_);
  base::Duration takes{};
  const auto run_due = [&] {
    std::vector<exchange::Job> due = exchange_jobs_.take(step_);
    if (due.empty()) return false;
    takes = run_exchange(std::move(due));
    return true;
  };
  if (!turns_.exchange(!jobs_.empty(), run_due)) {
    if (jobs_.empty()) return std::nullopt;
    const peer::Job job = std::move(jobs_.front());
    jobs_.pop_front();
    takes = run_job(job);
  }
  busy_ = true;
  peer::note_time(outcomes_, takes);
  return std::max(takes, kLeast);
}

std::vector<peer::Outcome> Worker::finish() {
  ASSERT(busy_);
  busy_ = false;
  if (writing_) {
    const base::StepNumber step = writing_->step;
    outcomes_.emplace_back(peer::Saved{step, folder_.write(std::move(*writing_))});
    writing_.reset();
  }
  return std::exchange(outcomes_, {});
}

void Worker::read_replica() {
  scratch_.resize(replica_.size());
  replica_.read(scratch_);
}

double Worker::sum() {
  read_replica();
  return std::accumulate(scratch_.begin(), scratch_.end(), 0.0);
}

void Worker::note_opening(const exchange::OpenJob& job) {
  const auto& [link, times] = opens_on_[job.peer];
  ledger_[job.peer] = {.opening = base::xxh3(base::bytes_of(std::span(&link, 1)), times),
                       .serial = ++openings_,
                       .committed = {},
                       .moved = {},
                       .sum = 0,
                       .sum_before = 0,
                       .momentum = 0};
}

// Who adopts has the other's replica, as the mirrors have it, and buffers. Other links of the same
// batch may have moved it since, so nothing is asked where there are any.
void Worker::check_adoption(const exchange::OpenJob& job) {
  if (job.decision != exchange::OpenDecision::adopt || !replica_.has(job.peer)) return;
  const auto buffers = base::bytes_of(std::as_const(replica_).buffers().values());
  if (!std::ranges::equal(buffers, job.their_buffers) && breach_.empty()) {
    breach_ = "does not have the buffers that it adopted";
  }
  scratch_.resize(replica_.size());
  replica_.read(scratch_);
  const auto mirror = replica_.mirror(job.peer, exchange::MirrorOf::mine);
  for (std::size_t i = 0; i < scratch_.size(); ++i) {
    if (std::abs(scratch_[i] - mirror[i]) <= 1e-5F * (1 + std::abs(mirror[i]))) continue;
    if (breach_.empty()) breach_ = "does not have the replica that it adopted";
    return;
  }
}

// What a commit does to a replica follows from its mirrors and deltas: with D the difference of the
// mirrors once both have their deltas, it is moved by gamma w D, at both ends by the same bits.
std::optional<Worker::Share> Worker::share_of(const exchange::CommitJob& commit) const {
  const auto mine = replica_.mirror(commit.peer, exchange::MirrorOf::mine);
  const auto theirs = replica_.mirror(commit.peer, exchange::MirrorOf::theirs);
  delta::Elements own;
  delta::Elements their;
  if (!delta::decode(commit.own, mine.size(), own)) return std::nullopt;
  if (!delta::decode(commit.their, mine.size(), their)) return std::nullopt;
  const auto sum = [](const auto& values) {
    return std::accumulate(values.begin(), values.end(), 0.0);
  };
  const auto magnitude = [](const auto& values) {
    return std::accumulate(values.begin(), values.end(), 0.0, [](double all, float value) {
      return all + std::abs(static_cast<double>(value));
    });
  };
  const double apart = sum(theirs) + sum(their.values) - sum(mine) - sum(own.values);
  return Share{.moved = static_cast<double>(replica_.averaging().gamma) *
                        static_cast<double>(commit.w) * apart,
               .size = 2 * (magnitude(mine) + magnitude(own.values)) + magnitude(theirs) +
                       magnitude(their.values),
               .ahead = static_cast<double>(commit.part * replica_.averaging().ahead) *
                        momentum_after(commit)};
}

// Sum of the elements of a link's momentum once an exchange is committed.
double Worker::momentum_after(const exchange::CommitJob& commit) const {
  const double momentum = static_cast<double>(replica_.averaging().momentum);
  const auto link = ledger_.find(commit.peer);
  if (momentum == 0 || link == ledger_.end()) return 0;
  double sum = momentum * link->second.momentum;
  for (const base::Buffer* payload : {&commit.own, &commit.their}) {
    delta::Elements delta;
    if (!delta::decode(*payload, replica_.size(), delta)) return 0;
    sum += 0.5 * std::accumulate(delta.values.begin(), delta.values.end(), 0.0);
  }
  return sum;
}

// Of the commits among these jobs, by their tags; left out are those whose mirrors another of the
// jobs sets. To be called before the jobs run.
Worker::Shares Worker::shares_of(const std::vector<exchange::Job>& due) const {
  Shares shares;
  for (const exchange::Job& job : due) {
    const auto* commit = std::get_if<exchange::CommitJob>(&job);
    if (commit == nullptr || !replica_.has(commit->peer)) continue;
    const auto sets = [&](const exchange::Job& other) {
      return &other != &job && sets_mirrors(other) && exchange::peer_of(other) == commit->peer;
    };
    if (std::ranges::any_of(due, sets)) continue;
    if (const auto share = share_of(*commit)) shares.emplace(commit->tag, *share);
  }
  return shares;
}

// Whether commits did to the replica what their mirrors say, where nothing else moved it.
void Worker::check_ledger(const std::vector<exchange::Job>& due, const Tags& applied, double moved,
                          const Shares& shares) {
  if (std::ranges::any_of(due, adopts)) return;
  double expected = 0;
  double size = 0;
  for (const exchange::JobTag tag : applied) {
    const auto share = shares.find(tag);
    if (share == shares.end()) return;
    expected += share->second.moved + share->second.ahead;
    size += share->second.size;
  }
  // Mirrors in bfloat16 are as far from what they were meant to be as their last bit says.
  const bool whole = replica_.averaging().mirror == delta::MirrorType::float32;
  const double rounding = whole ? 1e-5 : 0x1p-7;
  // Any job may divide x between y and r anew; of a replica that diverges, the last bits are large.
  double last_bits = 0;
  for (const float x : scratch_) last_bits += 0x1p-23 * std::abs(static_cast<double>(x));
  if (!(std::abs(moved - expected) <= 1e-4 + rounding * size + last_bits) && breach_.empty()) {
    breach_ = fmt::format("moved by {} in a commit whose mirrors say {}", moved, expected);
  }
}

void Worker::note_commits(const std::vector<exchange::Job>& due, const Tags& applied,
                          std::optional<double> moved, const Shares& shares) {
  const bool other = std::ranges::any_of(due, adopts);
  for (const exchange::Job& job : due) {
    if (const auto* open = std::get_if<exchange::OpenJob>(&job)) note_opening(*open);
    if (std::holds_alternative<exchange::CloseJob>(job)) ledger_.erase(exchange::peer_of(job));
    const auto* commit = std::get_if<exchange::CommitJob>(&job);
    if (commit == nullptr || !applied.contains(commit->tag)) continue;
    const auto at = ledger_.find(commit->peer);
    if (at == ledger_.end()) continue;
    LinkLedger& link = at->second;
    if (commit->exchange != link.committed.next() && breach_.empty()) {
      breach_ = fmt::format("committed exchange {} with {} after exchange {}",
                            commit->exchange.value, commit->peer.brief(), link.committed.value);
    }
    link.committed = commit->exchange;
    link.momentum = momentum_after(*commit);
    link.moved.reset();
    const auto share = shares.find(commit->tag);
    if (applied.size() == 1 && !other && moved && share != shares.end()) {
      link.moved = *moved - share->second.ahead;
    }
    link.sum_before = link.sum;
    if (link.sum && share != shares.end()) {
      *link.sum += share->second.moved;
    } else {
      link.sum.reset();
    }
    committed_.push_back(commit->peer);
  }
}

base::Duration Worker::run_exchange(std::vector<exchange::Job> due) {
  const bool look = replica_.size() <= kSmallReplica || ++batches_ % kLargeEvery == 0;
  std::optional<double> moved;
  Shares shares;
  if (look) moved = -sum();
  if (look) shares = shares_of(due);
  std::vector<exchange::Outcome> outcomes = exchange::run_batch(due, replica_, step_);
  if (look) *moved += sum();
  if (look && !std::isfinite(*moved) && breach_.empty()) {
    breach_ = "an exchange made the replica not finite";
  }
  const Tags applied = applied_of(outcomes);
  if (look) check_ledger(due, applied, *moved, shares);
  note_commits(due, applied, moved, shares);
  if (due.size() == 1) {
    if (const auto* open = std::get_if<exchange::OpenJob>(&due.front())) check_adoption(*open);
  }
  for (exchange::Outcome& outcome : outcomes) outcomes_.emplace_back(std::move(outcome));
  return step_time_ / 20;
}

base::Duration Worker::run_job(const peer::Job& job) {
  if (const auto* step = std::get_if<peer::StepJob>(&job)) return run_step(step->lr);
  if (std::holds_alternative<peer::GradientJob>(job)) return run_gradient();
  if (const auto* evaluate = std::get_if<peer::EvaluateJob>(&job)) return run_evaluation(*evaluate);
  if (const auto* save = std::get_if<peer::SaveJob>(&job)) return run_save(*save);
  if (const auto* apply = std::get_if<peer::ApplyJob>(&job)) {
    const auto mean = replica_.buffers().take_from(apply->mean, kProtocol);
    if (!mean) return failed(mean.error());
    learner_->apply(replica_.trained(), *mean, apply->lr);
    samples_ += gradient_samples_;
    outcomes_.emplace_back(peer::StepDone{++step_, gradient_samples_, gradient_loss_});
  } else if (const auto* anchor = std::get_if<peer::AnchorJob>(&job)) {
    outer_.emplace(replica_.trained(), anchor->lr, anchor->momentum);
  } else if (std::holds_alternative<peer::OuterGradientJob>(job)) {
    gradient_.resize(replica_.size());
    outer_->moved(replica_.trained(), gradient_);
    outcomes_.emplace_back(peer::OuterGradient{replica_.buffers().behind(gradient_)});
  } else if (const auto* outer = std::get_if<peer::OuterStepJob>(&job)) {
    const auto mean = replica_.buffers().take_from(outer->mean, kProtocol);
    if (!mean) return failed(mean.error());
    outer_->apply(*mean, replica_.trained());
    outcomes_.emplace_back(peer::OuterStepDone{});
  }
  return step_time_ / 20;
}

base::Duration Worker::failed(const base::Error& error) {
  outcomes_.emplace_back(peer::Failed{error});
  return step_time_;
}

base::Duration Worker::run_step(float lr) {
  const auto result = learner_->step(replica_.trained(), replica_.buffers().values(), lr);
  if (!result) return failed(result.error());
  loss_ = static_cast<double>(result->loss);
  samples_ += result->samples;
  outcomes_.emplace_back(peer::StepDone{++step_, result->samples, result->loss});
  return step_time_ * batch_ / whole_batch_;
}

base::Duration Worker::run_gradient() {
  gradient_.resize(replica_.size());
  const auto result =
      learner_->gradient(replica_.trained(), replica_.buffers().values(), gradient_);
  if (!result) return failed(result.error());
  gradient_samples_ = result->samples;
  gradient_loss_ = result->loss;
  outcomes_.emplace_back(peer::GradientReady{step_.next(), result->samples, result->loss,
                                             replica_.buffers().behind(gradient_)});
  return step_time_;
}

base::Duration Worker::run_evaluation(const peer::EvaluateJob& job) {
  read_replica();
  const auto quality = learner_->evaluate(scratch_, replica_.buffers().values(), job.samples);
  if (!quality) return failed(quality.error());
  evaluated_ = peer::Evaluated{.samples = quality->samples,
                               .whole = job.samples == 0,
                               .accuracy = quality->accuracy,
                               .loss = quality->loss};
  outcomes_.emplace_back(*evaluated_);
  return step_time_;
}

base::Duration Worker::run_save(const peer::SaveJob& job) {
  read_replica();
  const auto buffers = std::as_const(replica_).buffers().values();
  writing_ = Checkpoint{.step = step_,
                        .samples = samples_,
                        .progress = job.progress,
                        .counters = job.counters(samples_),
                        .parameters = scratch_,
                        .buffers = {buffers.begin(), buffers.end()},
                        .state = learner_->state()};
  return kSaveTime;
}

}  // namespace starling::sim
