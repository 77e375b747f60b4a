#include "embed/worker.hpp"

#include <cmath>
#include <new>
#include <utility>
#include <variant>

#include "base/assert.hpp"
#include "base/default_floats.hpp"
#include "io/loop.hpp"
#include "io/trainer_thread.hpp"

namespace starling::embed {
Worker::Worker(io::TrainerPort& port, exchange::Replica replica, data::SampleOrder order,
               std::uint32_t batch, Evaluate evaluate, peer::Saver saver,
               base::StepNumber first_step, std::uint64_t first_samples)
    : port_(port),
      replica_(std::move(replica)),
      order_(std::move(order)),
      batch_(batch),
      evaluate_(std::move(evaluate)),
      saver_(std::move(saver)),
      step_(first_step),
      trained_(first_samples),
      copy_(replica_.size()) {}

std::optional<Step> Worker::next_step() {
  ASSERT(!stepping_);
  while (!port_.closed()) {
    while (auto job = port_.try_next()) submit(std::move(*job));
    if (failed_) {
      while (port_.next()) continue;  // until the peer has heard of it
    } else if (turns_.exchange(!jobs_.empty(), [this] { return exchange(); })) {
      port_.hand_back(outcomes_);
    } else if (jobs_.empty()) {
      if (auto job = port_.next()) submit(std::move(*job));
    } else {
      const peer::Job job = std::move(jobs_.front());
      jobs_.pop_front();
      if (auto step = run(job)) return step;
    }
  }
  return std::nullopt;
}

bool Worker::exchange() {
  const base::DefaultFloats default_floats;
  const base::Time begin = io::Loop::now();
  try {
    if (!peer::run_exchange(exchange_jobs_, replica_, step_, outcomes_)) return false;
    peer::note_time(outcomes_, io::Loop::now() - begin);
  } catch (const std::bad_alloc&) {  // a new link's mirrors
    failed_ = true;
    outcomes_.clear();
    outcomes_.emplace_back(peer::Failed{io::out_of_memory()});
  }
  return true;
}

void Worker::step_done(float loss) {
  ASSERT(stepping_);
  stepping_ = false;
  if (!std::isfinite(loss)) {
    failed_ = true;
    return hand_back(peer::Failed{{base::ErrorCode::diverged, "the loss is not finite"}});
  }
  ++step_;
  trained_ += samples_.size();
  hand_back(peer::StepDone{.step = step_,
                           .samples = static_cast<std::uint32_t>(samples_.size()),
                           .loss = loss,
                           .took = io::Loop::now() - began_});
}

void Worker::submit(peer::Job job) {
  if (const auto* shards = std::get_if<peer::ShardsJob>(&job)) {
    order_.set_shards(shards->owned);
    batch_ = shards->batch;
  } else if (auto* exchange = std::get_if<exchange::Job>(&job)) {
    exchange_jobs_.push(std::move(*exchange));
  } else {
    jobs_.push_back(std::move(job));
  }
}

// The step, where the job is one.
std::optional<Step> Worker::run(const peer::Job& job) {
  if (const auto* step = std::get_if<peer::StepJob>(&job)) return begin_step(step->lr);
  if (const auto* evaluation = std::get_if<peer::EvaluateJob>(&job)) {
    run_evaluation(evaluation->samples);
  } else if (const auto* save = std::get_if<peer::SaveJob>(&job)) {
    const peer::Snapshot trained{.step = step_, .samples = trained_};
    hand_back(peer::save(*save, replica_, trained, copy_, saver_));
  } else {
    ASSERT(false, "modes that reduce gradients are not for programs that embed a peer");
  }
  return std::nullopt;
}

Step Worker::begin_step(float learning_rate) {
  samples_.resize(batch_);
  order_.next(samples_);
  stepping_ = true;
  began_ = io::Loop::now();
  return {.number = step_.next().value, .learning_rate = learning_rate, .samples = samples_};
}

void Worker::run_evaluation(std::uint32_t samples) {
  if (!evaluate_) return hand_back(peer::NotEvaluated{});
  replica_.read(copy_);
  Evaluation found;
  try {
    found = evaluate_(copy_, replica_.buffers().values(), samples);
  } catch (...) {
    // The program may catch it and go on.
    hand_back(peer::NotEvaluated{});
    throw;
  }
  hand_back(peer::Evaluated{
      .samples = samples, .whole = samples == 0, .accuracy = found.accuracy, .loss = found.loss});
}

void Worker::hand_back(peer::Outcome outcome) {
  outcomes_.push_back(std::move(outcome));
  port_.hand_back(outcomes_);
}

}  // namespace starling::embed
