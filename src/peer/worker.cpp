#include "peer/worker.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/assert.hpp"
#include "train/update_kernels.hpp"

namespace starling::peer {
Worker::Worker(train::Trainer trainer, exchange::Replica replica, data::Loader& loader,
               const data::SampleSet& test, Saver saver, base::StepNumber first_step,
               std::uint64_t first_samples)
    : trainer_(std::move(trainer)),
      replica_(std::move(replica)),
      loader_(loader),
      test_(test),
      saver_(std::move(saver)),
      step_(first_step),
      samples_(first_samples),
      copy_(replica_.size()) {}

void Worker::submit(Job job) {
  ASSERT(jobs_.size() < kJobsMax);
  if (auto* shards = std::get_if<ShardsJob>(&job)) {
    loader_.set_shards(std::move(shards->owned));
    loader_.set_batch(shards->batch);
  } else if (auto* exchange = std::get_if<exchange::Job>(&job)) {
    exchange_jobs_.push(std::move(*exchange));
  } else {
    jobs_.push_back(std::move(job));
  }
}

bool Worker::work(std::vector<Outcome>& outcomes) {
  const auto run = [&] { return run_exchange(exchange_jobs_, replica_, step_, outcomes); };
  if (turns_.exchange(!jobs_.empty(), run)) return true;
  if (jobs_.empty()) return false;
  const Job& next = jobs_.front();
  if (std::holds_alternative<EvaluateJob>(next)) {
    run_evaluation(outcomes);
    return true;
  }
  Job job = std::move(jobs_.front());
  jobs_.pop_front();
  if (const auto* step = std::get_if<StepJob>(&job)) {
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
    const Snapshot trained{.rule = &trainer_.rule(), .step = step_, .samples = samples_};
    outcomes.push_back(peer::save(*save, replica_, trained, copy_, saver_));
  }
  return true;
}

Outcome Worker::run_step(float lr) {
  auto batch = ahead_ ? std::exchange(ahead_, {}) : loader_.next();
  if (!batch) return Failed{{base::ErrorCode::internal, "the data thread has stopped"}};
  const std::span<float> buffers = replica_.buffers().values();
  const auto loss = trainer_.resides() ? run_resident_step(*batch, lr)
                                       : trainer_.step(replica_.trained(), buffers, batch->view(),
                                                       lr, batch->seed);
  const std::uint32_t samples = batch->count;
  loader_.recycle(std::move(*batch));
  if (!loss) return Failed{loss.error()};
  ++step_;
  samples_ += samples;
  return StepDone{step_, samples, *loss};
}

void Worker::tell_if_slow(std::vector<Outcome>& outcomes) {
  auto why = trainer_.slow_steps();
  if (why.has_value() == told_slow_) return;
  told_slow_ = why.has_value();
  outcomes.emplace_back(
      why ? base::Notice{base::Severity::warning, std::move(*why)}
          : base::Notice{base::Severity::info, "steps are no longer slower than they should be"});
}

/// The next batch goes to the device beside it.
base::Result<float> Worker::run_resident_step(const data::BatchBuffer& batch, float lr) {
  ahead_ = loader_.try_next();
  const std::optional<compute::Batch> next = ahead_ ? std::optional(ahead_->view()) : std::nullopt;
  return trainer_.step(replica_.buffers().values(), batch.view(), next ? &*next : nullptr, lr,
                       batch.seed);
}

Outcome Worker::run_gradient() {
  auto batch = loader_.next();
  if (!batch) return Failed{{base::ErrorCode::internal, "the data thread has stopped"}};
  const auto loss = trainer_.compute_gradient(replica_.trained(), replica_.buffers().values(),
                                              batch->view(), batch->seed);
  batch_samples_ = batch->count;
  loader_.recycle(std::move(*batch));
  if (!loss) return Failed{loss.error()};
  batch_loss_ = *loss;
  return GradientReady{step_.next(), batch_samples_, batch_loss_,
                       replica_.buffers().behind(trainer_.gradient())};
}

Outcome Worker::run_apply(const ApplyJob& job) {
  const auto gradient = replica_.buffers().take_from(job.mean, base::ErrorCode::diverged);
  if (!gradient) return Failed{gradient.error()};
  ASSERT(gradient->size() == replica_.size());
  std::ranges::copy(*gradient, trainer_.gradient().begin());
  if (const auto applied = trainer_.apply(replica_.trained(), job.lr); !applied) {
    return Failed{applied.error()};
  }
  ++step_;
  samples_ += batch_samples_;
  return StepDone{step_, batch_samples_, batch_loss_};
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
  if (!evaluating_) {
    const std::uint32_t wanted = std::get<EvaluateJob>(jobs_.front()).samples;
    evaluation_ = {.samples = wanted == 0 ? test_.size() : std::min(wanted, test_.size())};
    if (!trainer_.resides()) {
      replica_.read(copy_);
    } else if (const auto held = trainer_.snapshot(); !held) {
      outcomes.push_back(Failed{held.error()});
      jobs_.pop_front();
      return;
    }
    const std::span<const float> buffers = replica_.buffers().values();
    buffers_copy_.assign(buffers.begin(), buffers.end());
    evaluating_ = true;
  }
  const std::uint32_t count = std::min(loader_.batch(), evaluation_.samples - evaluation_.done);
  test_.fill_spread(evaluation_.done, count, evaluation_.samples, tested_);
  const auto piece = trainer_.resides() ? trainer_.evaluate(buffers_copy_, tested_.view())
                                        : trainer_.evaluate(copy_, buffers_copy_, tested_.view());
  if (!piece) {
    outcomes.push_back(Failed{piece.error()});
  } else {
    evaluation_.correct += piece->accuracy * count;
    evaluation_.loss += piece->loss * count;
    evaluation_.done += count;
    if (evaluation_.done < evaluation_.samples) return;
    const bool labelled = test_.format().classes != 0;
    outcomes.push_back(Evaluated{.samples = evaluation_.samples,
                                 .whole = evaluation_.samples == test_.size(),
                                 .accuracy = labelled ? evaluation_.correct / evaluation_.samples
                                                      : std::numeric_limits<double>::quiet_NaN(),
                                 .loss = evaluation_.loss / evaluation_.samples});
  }
  evaluating_ = false;
  jobs_.pop_front();
}

}  // namespace starling::peer
