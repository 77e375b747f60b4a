#include <algorithm>
#include <utility>

#include "base/assert.hpp"
#include "base/simulated.hpp"
#include "exchange/jobs.hpp"
#include "exchange/replica.hpp"

namespace starling::exchange {
namespace {

using base::StepNumber;

double lag_of(const EncodeJob& job, StepNumber step) {
  if (job.at_once || step <= job.not_before) return 1.0;
  const double late = static_cast<double>(step.value - job.not_before.value);
  return 1.0 + late / static_cast<double>(job.every);
}

// A delta that leaves the `times`-th part of a difference untold, or the first of several. Of
// normal differences, 4 bits of 70 % leave 0.16, and a bit of 30 % leaves 0.53, both for about 1.4
// bits an element and halving.
void tell_all(double times, delta::Options& options) {
  const bool is_far = times > 3.0;
  options.density = is_far ? 0.7 : 0.3;
  options.bits = is_far ? 4 : 1;
}

std::optional<Outcome> run_one(const EncodeJob& job, Replica& replica, StepNumber step) {
  Encoded outcome{.peer = job.peer,
                  .tag = job.tag,
                  .exchange = job.exchange,
                  .status = {},
                  .lag = lag_of(job, step),
                  .step = step};
  delta::Options options = job.options;
  const double least = 1.0 / static_cast<double>(replica.size());
  options.density =
      std::clamp(options.density * std::min(outcome.lag, job.lag_factor_max), least, 1.0);
  if (job.near_enough > 0.0) {
    outcome.learned = replica.learned();
    outcome.mirror_error = replica.untold(job.peer);
    const double near = job.near_enough * outcome.learned;
    if (outcome.mirror_error < kUntold * near) {
      options.density = least;
      outcome.drift = replica.distance(job.peer, MirrorOf::theirs);
      outcome.skipped =
          job.may_skip && outcome.drift < near && replica.buffer_drift(job.peer) < job.near_enough;
      if (outcome.skipped) return outcome;
    } else if (job.tells_all) {
      tell_all(outcome.mirror_error / near, options);
    }
  }
  outcome.density = options.density;
  if (job.with_hash) outcome.mirror_hash = replica.mirror_hash(job.peer, MirrorOf::mine);
  const auto drift = replica.encode(job.peer, options, outcome.payload);
  if (!drift) {
    outcome.status = base::fail(drift.error());
    return outcome;
  }
  outcome.drift = *drift;
  outcome.radius = replica.radius(job.peer, outcome.lag, job.near_enough > 0.0);
  if (job.near_enough > 0.0) outcome.buffer_drift = replica.buffer_drift(job.peer);
  if (job.with_buffers) outcome.status = replica.buffers().write(outcome.buffers);
  return outcome;
}

// Checks a commit and stages it.
Committed stage(const CommitJob& job, Replica& replica) {
  Committed outcome{.peer = job.peer, .tag = job.tag, .exchange = job.exchange};
  if (SIM_BUG(commit_skipped) && job.tag % 8 == 7) return outcome;
  if (job.expected_hash && *job.expected_hash != replica.mirror_hash(job.peer, MirrorOf::theirs)) {
    outcome.result = CommitResult::mismatch;
    return outcome;
  }
  const auto status = replica.stage(job);
  if (!status) {
    const bool is_theirs = status.error().code == base::ErrorCode::protocol;
    outcome.result = is_theirs ? CommitResult::invalid : CommitResult::failed;
    outcome.error = status.error();
    if (status.error().code == base::ErrorCode::no_room) outcome.again = job;
  } else if (job.judged && replica.refuse_if_bad(job.peer)) {
    outcome.result = CommitResult::refused;
  } else {
    const Reach reach = replica.staged_reach(job.peer);
    outcome.moved = reach.moved;
    outcome.told = reach.told;
  }
  return outcome;
}

std::optional<Outcome> run_one(const CommitJob& job, Replica& replica, StepNumber) {
  Committed outcome = stage(job, replica);
  replica.apply_staged();
  return outcome;
}

std::optional<Outcome> run_one(const KeyframeJob& job, Replica& replica, StepNumber) {
  KeyframeMade outcome{.peer = job.peer, .tag = job.tag, .status = {}};
  outcome.status = replica.encode_keyframe(outcome.payload);
  if (outcome.status && job.with_buffers) outcome.status = replica.buffers().write(outcome.buffers);
  return outcome;
}

std::optional<Outcome> run_one(const OpenJob& job, Replica& replica, StepNumber) {
  Opened outcome{.peer = job.peer, .tag = job.tag, .status = {}};
  switch (job.decision) {
    case OpenDecision::fresh:
      outcome.status = replica.open_fresh(job.peer);
      break;
    case OpenDecision::merge:
      outcome.status = replica.open_merge(job.peer, job.own, job.their);
      break;
    case OpenDecision::adopt:
      outcome.status = replica.open_adopted(job.peer, job.their, job.their_buffers);
      break;
    case OpenDecision::give:
      outcome.status = replica.open_gave(job.peer, job.own);
      break;
    case OpenDecision::resume:
    case OpenDecision::wait:
      ASSERT(false, "these set no mirrors");
  }
  if (!outcome.status && outcome.status.error().code == base::ErrorCode::no_room) {
    outcome.again = job;
  }
  return outcome;
}

std::optional<Outcome> run_one(const SuspendJob& job, Replica& replica, StepNumber) {
  if (replica.has(job.peer)) replica.suspend(job.peer);
  return std::nullopt;
}

std::optional<Outcome> run_one(const ResumeJob& job, Replica& replica, StepNumber) {
  if (replica.has(job.peer)) replica.resume(job.peer);
  return std::nullopt;
}

std::optional<Outcome> run_one(const CloseJob& job, Replica& replica, StepNumber) {
  if (replica.has(job.peer)) replica.close(job.peer);
  return std::nullopt;
}

}  // namespace

const base::PeerId& peer_of(const Job& job) {
  return std::visit([](const auto& one) -> const base::PeerId& { return one.peer; }, job);
}

std::optional<Outcome> run(const Job& job, Replica& replica, StepNumber step) {
  return std::visit([&](const auto& one) { return run_one(one, replica, step); }, job);
}

std::vector<Outcome> run_batch(std::span<const Job> jobs, Replica& replica, StepNumber step) {
  std::vector<Outcome> outcomes;
  // Nothing is asked of a replica that is lost: a link may not be as its jobs take for granted.
  if (!replica.status()) return {};
  std::vector<bool> ran(jobs.size(), false);
  // A commit may go ahead of what concerns other links, not of what concerns its own.
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    const auto* commit = std::get_if<CommitJob>(&jobs[i]);
    if (commit == nullptr || SIM_RARE(jobs_one_by_one)) continue;
    const auto before = jobs.first(i);
    if (std::ranges::any_of(before, [&](const Job& job) { return peer_of(job) == commit->peer; })) {
      continue;
    }
    outcomes.emplace_back(stage(*commit, replica));
    ran[i] = true;
    if (!replica.status()) return {};
  }
  replica.apply_staged();
  if (!replica.status()) return {};
  replica.expect_deltas(static_cast<std::size_t>(std::ranges::count_if(
      jobs, [](const Job& job) { return std::holds_alternative<EncodeJob>(job); })));
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    if (ran[i]) continue;
    auto outcome = run(jobs[i], replica, step);
    if (!replica.status()) return {};
    if (outcome) outcomes.push_back(std::move(*outcome));
  }
  // Fewer may have been written: one that would tell next to nothing is left out.
  replica.expect_deltas(0);
  return outcomes;
}

}  // namespace starling::exchange
