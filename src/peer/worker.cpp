#include "peer/worker.hpp"

#include <algorithm>
#include <functional>
#include <utility>

#include "base/assert.hpp"
#include "train/update_kernels.hpp"

namespace starling::peer {

Worker::Worker(std::unique_ptr<Learner> learner, exchange::Replica replica, Saver saver,
               base::StepNumber first_step, std::uint64_t first_samples, ExchangeObserver* observer,
               Conduct* conduct)
    : learner_(std::move(learner)),
      replica_(std::move(replica)),
      saver_(std::move(saver)),
      observer_(observer),
      conduct_(conduct),
      step_(first_step),
      samples_(first_samples),
      copy_(replica_.size()) {}

void Worker::submit(Job job) {
  ASSERT(jobs_.size() < kJobsMax);
  if (auto* shards = std::get_if<ShardsJob>(&job)) {
    learner_->set_data(std::move(shards->owned), shards->batch);
  } else if (auto* exchange = std::get_if<exchange::Job>(&job)) {
    exchange_jobs_.push(std::move(*exchange));
  } else {
    jobs_.push_back(std::move(job));
  }
}

void Worker::add_bounds(base::Bounds& out) const {
  out.add("jobs of training", jobs_.size(), kTrainingJobsMax);
  out.add("jobs of the exchange", exchange_jobs_.size(), exchange::kJobsMax);
}

bool Worker::work(std::vector<Outcome>& outcomes) {
  const auto run = [&] {
    return run_exchange(exchange_jobs_, replica_, step_, outcomes, observer_, conduct_);
  };
  if (turns_.exchange(!jobs_.empty(), run)) return true;
  if (jobs_.empty()) return false;
  if (std::holds_alternative<EvaluateJob>(jobs_.front())) {
    run_evaluation(outcomes);
    return true;
  }
  const Job job = std::move(jobs_.front());
  jobs_.pop_front();
  if (const auto* step = std::get_if<StepJob>(&job)) {
    audit_if_due(outcomes);
    outcomes.push_back(run_step(step->lr));
    tell_if_slow(outcomes);
  } else if (std::holds_alternative<GradientJob>(job)) {
    outcomes.push_back(run_gradient());
    tell_if_slow(outcomes);
  } else if (const auto* apply = std::get_if<ApplyJob>(&job)) {
    outcomes.push_back(run_apply(*apply));
  } else if (const auto* anchor = std::get_if<AnchorJob>(&job)) {
    outer_.emplace(replica_.trained(), anchor->lr, anchor->momentum);
  } else if (std::holds_alternative<OuterGradientJob>(job)) {
    outcomes.push_back(run_outer_gradient());
  } else if (const auto* outer = std::get_if<OuterStepJob>(&job)) {
    outcomes.push_back(run_outer_step(*outer));
  } else if (const auto* save = std::get_if<SaveJob>(&job)) {
    const Snapshot trained{.rule = learner_->rule(), .step = step_, .samples = samples_};
    outcomes.push_back(peer::save(*save, replica_, trained, copy_, saver_));
  }
  return true;
}

Outcome Worker::run_step(float lr) {
  const auto batch = learner_->step(replica_, lr);
  if (!batch) return Failed{batch.error()};
  return count(*batch);
}

void Worker::begin_audits(bool interchangeable) {
  audits_.emplace(interchangeable);
  replica_.set_judge([this](std::span<const float> here, std::span<const float> there,
                            std::span<const float> buffers) {
    if (!learner_->begin_audit(kJudgeSamples)) return 1.0;
    const std::span<const float> own = replica_.buffers().values();
    const auto loss = learner_->audit(here, own);
    const auto other = learner_->audit(there, buffers.empty() ? own : buffers);
    return loss && other ? Audits::times_worse(*loss, *other) : 1.0;
  });
}

void Worker::audit_if_due(std::vector<Outcome>& outcomes) {
  if (!audits_) return;
  const std::vector<exchange::Pulling> neighbours = audits_->due(replica_.pulling());
  if (neighbours.empty() || !learner_->begin_audit(kAuditSamples)) return;
  auto audited = audit(neighbours);
  if (!audited) {
    outcomes.emplace_back(Failed{audited.error()});
  } else {
    outcomes.emplace_back(exchange::Outcome(std::move(*audited)));
  }
}

// Tries where each link pulls to: theirs - mine is what an exchange moves this replica by. From
// the mean of the own mirrors, which lack the noise of the last steps, as theirs does.
base::Result<exchange::Audited> Worker::audit(std::span<const exchange::Pulling> neighbours) {
  using exchange::MirrorOf;
  std::vector<float>& own = copy_;
  std::ranges::fill(own, 0.0F);
  const float part = 1.0F / static_cast<float>(neighbours.size());
  std::vector<base::LargeFloats> pulls;
  for (const exchange::Pulling& one : neighbours) {
    const base::LargeFloats mine = replica_.mirror(one.peer, MirrorOf::mine);
    base::LargeFloats& pull = pulls.emplace_back(replica_.mirror(one.peer, MirrorOf::theirs));
    for (std::size_t i = 0; i < own.size(); ++i) {
      own[i] += part * mine[i];
      pull[i] -= mine[i];
    }
  }
  const base::PeerId& first = neighbours.front().peer;
  const auto loss = learner_->audit(own, replica_.known_buffers(first, MirrorOf::mine));
  if (!loss) return base::fail(loss.error());
  std::vector<Tried> tried;
  for (std::size_t link = 0; link < neighbours.size(); ++link) {
    base::LargeFloats& there = pulls[link];
    std::ranges::transform(own, there, there.begin(), std::plus<>());
    const exchange::Pulling& one = neighbours[link];
    const std::span<const float> buffers = replica_.known_buffers(one.peer, MirrorOf::theirs);
    const auto theirs = learner_->audit(there, buffers);
    if (!theirs) return base::fail(theirs.error());
    bool trained_apart = false;
    if (audits_->is_suspicious(*loss, *theirs)) {
      const base::LargeFloats alone = replica_.mirror(one.peer, MirrorOf::theirs);
      const auto by_itself = learner_->audit(alone, buffers);
      if (!by_itself) return base::fail(by_itself.error());
      trained_apart = !audits_->is_suspicious(*loss, *by_itself);
    }
    tried.push_back({.peer = one.peer,
                     .loss = *theirs,
                     .exchanges = one.exchanges,
                     .trained_apart = trained_apart});
  }
  exchange::Audited audited = audits_->judge(*loss, tried);
  for (const auto& finding : audited.findings) replica_.set_trust(finding.peer, finding.trust);
  replica_.heal(audited.heals);
  return audited;
}

Outcome Worker::count(const Trained& batch) {
  if (audits_) audits_->trained(batch.samples);
  ++step_;
  samples_ += batch.samples;
  return StepDone{step_, batch.samples, batch.loss};
}

void Worker::tell_if_slow(std::vector<Outcome>& outcomes) {
  auto why = learner_->slow_steps();
  if (why.has_value() == told_slow_) return;
  told_slow_ = why.has_value();
  outcomes.emplace_back(
      why ? base::LogEntry{base::Severity::warning, std::move(*why)}
          : base::LogEntry{base::Severity::info, "steps are no longer slower than they should be"});
}

Outcome Worker::run_gradient() {
  const auto gradient = learner_->gradient(replica_);
  if (!gradient) return Failed{gradient.error()};
  halfway_ = gradient->batch;
  return GradientReady{step_.next(), halfway_.samples, halfway_.loss,
                       replica_.buffers().behind(gradient->values)};
}

Outcome Worker::run_apply(const ApplyJob& job) {
  const auto gradient = replica_.buffers().take_from(job.mean, base::ErrorCode::diverged);
  if (!gradient) return Failed{gradient.error()};
  if (const auto applied = learner_->apply(replica_, *gradient, job.lr); !applied) {
    return Failed{applied.error()};
  }
  return count(halfway_);
}

Outcome Worker::run_outer_gradient() {
  std::vector<float> moved(replica_.size());
  outer_->moved(replica_.trained(), moved);
  return OuterGradient{replica_.buffers().behind(moved)};
}

Outcome Worker::run_outer_step(const OuterStepJob& job) {
  const auto moved = replica_.buffers().take_from(job.mean, base::ErrorCode::diverged);
  if (!moved) return Failed{moved.error()};
  if (!train::kernels::all_finite(*moved)) {
    return Failed{{base::ErrorCode::diverged,
                   "the mean of what the peers moved by is not finite: lower train.lr"}};
  }
  outer_->apply(*moved, replica_.trained());
  return OuterStepDone{};
}

void Worker::run_evaluation(std::vector<Outcome>& outcomes) {
  const auto fail = [&](const base::Error& error) {
    outcomes.push_back(Failed{error});
    evaluating_ = false;
    jobs_.pop_front();
  };
  if (!evaluating_) {
    const std::uint32_t samples = std::get<EvaluateJob>(jobs_.front()).samples;
    const auto begun = learner_->begin_evaluation(replica_, samples);
    if (!begun) return fail(begun.error());
    evaluating_ = true;
  }
  const auto result = learner_->evaluate();
  if (!result) return fail(result.error());
  if (!*result) return;
  outcomes.push_back(**result);
  evaluating_ = false;
  jobs_.pop_front();
}

}  // namespace starling::peer
