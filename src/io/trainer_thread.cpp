#include "io/trainer_thread.hpp"

#include <chrono>
#include <utility>

#include <pthread.h>
#include <sched.h>

#include "base/assert.hpp"

namespace starling::io {
namespace {

/// Tells the kernel that this thread computes without pause, so that a waking loop thread, this
/// peer's or another's on the same machine, runs before it. Failing to is harmless.
void yield_to_waking_threads() noexcept {
  const sched_param parameters{};
  pthread_setschedparam(pthread_self(), SCHED_BATCH, &parameters);
  pthread_setname_np(pthread_self(), "trainer");
}

}  // namespace

TrainerThread::TrainerThread(MakeWorker make, std::function<void()> wake)
    : make_(std::move(make)), wake_(std::move(wake)), thread_([this] { run(); }) {}

TrainerThread::~TrainerThread() { stop(); }

void TrainerThread::submit(peer::Job job) {
  const bool taken = jobs_.try_push(std::move(job)) || stopping_;
  ASSERT(taken, "more jobs than a peer may have outstanding");
}

void TrainerThread::stop() {
  stopping_ = true;
  jobs_.close();
  outcomes_.close();
  if (thread_.joinable()) thread_.join();
}

void TrainerThread::hand_back(std::vector<peer::Outcome>& outcomes) {
  for (peer::Outcome& outcome : outcomes) {
    if (!outcomes_.push(std::move(outcome))) break;
  }
  outcomes.clear();
  wake_();
}

void TrainerThread::run() {
  yield_to_waking_threads();
  std::vector<peer::Outcome> outcomes;
  auto worker = make_();
  make_ = nullptr;
  if (!worker) {
    outcomes.push_back(peer::Failed{std::move(worker.error())});
    hand_back(outcomes);
    return;
  }
  while (!stopping_) {
    while (auto job = jobs_.try_pop()) (*worker)->submit(std::move(*job));
    const auto begin = std::chrono::steady_clock::now();
    if ((*worker)->work(outcomes)) {
      peer::note_time(outcomes, std::chrono::steady_clock::now() - begin);
      if (!outcomes.empty()) hand_back(outcomes);
      continue;
    }
    auto job = jobs_.pop();
    if (!job) return;
    (*worker)->submit(std::move(*job));
  }
}

}  // namespace starling::io
