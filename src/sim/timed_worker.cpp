#include "sim/timed_worker.hpp"

#include <algorithm>
#include <utility>

#include "base/assert.hpp"
#include "train/optimizer.hpp"

namespace starling::sim {
namespace {

// Virtual times, in addition to that of a step.
constexpr base::Duration kSaveTime = std::chrono::milliseconds(30);
constexpr base::Duration kLeast = std::chrono::microseconds(20);

std::vector<float> state_of(train::UpdateRule* rule) {
  std::vector<float> all;
  if (rule == nullptr) return all;
  const auto pieces = rule->state();
  for (const auto& piece : pieces.value()) {
    all.insert(all.end(), piece.values.begin(), piece.values.end());
  }
  return all;
}

void restore(train::UpdateRule* rule, std::span<const float> state) {
  if (rule == nullptr) return;
  const auto pieces = rule->state();
  for (const auto& piece : pieces.value()) {
    if (state.size() < piece.values.size()) return;
    std::ranges::copy(state.first(piece.values.size()), piece.values.begin());
    state = state.subspan(piece.values.size());
  }
}

}  // namespace

TimedWorker::TimedWorker(std::unique_ptr<peer::Learner> learner, exchange::Replica replica,
                         Folder& folder, base::StepNumber first_step, std::uint64_t first_samples,
                         base::Duration step, std::uint32_t batch, peer::Conduct* conduct)
    : folder_(folder),
      step_(first_step),
      step_time_(step),
      whole_batch_(batch),
      batch_(batch),
      worker_(make_worker(std::move(learner), std::move(replica), first_samples, conduct)) {}

peer::Worker TimedWorker::make_worker(std::unique_ptr<peer::Learner> learner,
                                      exchange::Replica replica, std::uint64_t samples,
                                      peer::Conduct* conduct) {
  if (const Checkpoint* saved = folder_.newest_whole(); saved != nullptr) {
    ASSERT(saved->step == step_);
    std::ranges::copy(saved->parameters, replica.trained().begin());
    const auto taken = replica.buffers().set(saved->buffers, base::ErrorCode::data);
    ASSERT(taken.has_value(), "whole checkpoints hold what was saved");
    restore(learner->rule(), saved->state);
  }
  const auto save = [this](const peer::Snapshot& snapshot) -> base::Status {
    writing_ = Checkpoint{.step = snapshot.step,
                          .samples = snapshot.samples,
                          .progress = snapshot.progress,
                          .weight = snapshot.weight,
                          .counters = {snapshot.counters.begin(), snapshot.counters.end()},
                          .parameters = {snapshot.parameters.begin(), snapshot.parameters.end()},
                          .buffers = {snapshot.buffers.begin(), snapshot.buffers.end()},
                          .state = state_of(snapshot.rule)};
    return {};
  };
  return {std::move(learner), std::move(replica), save, step_, samples, &ledger_, conduct};
}

void TimedWorker::submit(peer::Job job) {
  if (const auto* shards = std::get_if<peer::ShardsJob>(&job)) {
    shards_ = shards->owned;
    batch_ = shards->batch;
  }
  worker_.submit(std::move(job));
}

void TimedWorker::add_bounds(base::Bounds& out) const {
  worker_.add_bounds(out);
  ledger_.add_bounds(out);
}

std::optional<base::Duration> TimedWorker::begin() {
  ASSERT(!busy_);
  if (!worker_.work(outcomes_)) return std::nullopt;
  busy_ = true;
  const base::Duration takes = look_at(outcomes_);
  peer::note_time(outcomes_, takes);
  return std::max(takes, kLeast);
}

base::Duration TimedWorker::look_at(const std::vector<peer::Outcome>& outcomes) {
  base::Duration takes = step_time_ / 20;
  for (const peer::Outcome& outcome : outcomes) {
    if (const auto* done = std::get_if<peer::StepDone>(&outcome)) {
      step_ = done->step;
      if (!std::exchange(halfway_, false)) takes = step_time_ * batch_ / whole_batch_;
    } else if (std::holds_alternative<peer::GradientReady>(outcome)) {
      halfway_ = true;
      takes = step_time_;
    } else if (const auto* evaluated = std::get_if<peer::Evaluated>(&outcome)) {
      evaluated_ = *evaluated;
      takes = step_time_;
    } else if (std::holds_alternative<peer::Saved>(outcome)) {
      takes = kSaveTime;
    } else if (std::holds_alternative<peer::Failed>(outcome)) {
      takes = step_time_;
    }
  }
  return takes;
}

// A checkpoint exists once its time is over: a peer that crashes earlier has the previous one.
std::vector<peer::Outcome> TimedWorker::finish() {
  ASSERT(busy_);
  busy_ = false;
  if (writing_) {
    for (peer::Outcome& outcome : outcomes_) {
      if (auto* saved = std::get_if<peer::Saved>(&outcome)) {
        saved->status = folder_.write(std::move(*writing_));
      }
    }
    writing_.reset();
  }
  return std::exchange(outcomes_, {});
}

}  // namespace starling::sim
