#include "io/trainer_thread.hpp"

#include <chrono>
#include <new>
#include <utility>
#include <vector>

#include <pthread.h>
#include <sched.h>

namespace starling::io {
namespace {

/// Tells the kernel that this thread computes without pause, so that a waking loop thread, this
/// peer's or another's on the same machine, runs before it. A failure is harmless.
void yield_to_waking_threads() noexcept {
  const sched_param parameters{};
  pthread_setschedparam(pthread_self(), SCHED_BATCH, &parameters);
  pthread_setname_np(pthread_self(), "trainer");
}

}  // namespace

base::Error out_of_memory() {
  return {base::ErrorCode::device,
          "out of memory: choose a smaller model or batch, fewer links (swarm.degree), or "
          "exchange.mirror = \"bf16\""};
}

TrainerThread::TrainerThread(TrainerPort& port, MakeWorker make)
    : port_(port), make_(std::move(make)), thread_([this] { run(); }) {}

TrainerThread::~TrainerThread() {
  port_.close();
  thread_.join();
}

void TrainerThread::run() {
  yield_to_waking_threads();
  std::vector<peer::Outcome> outcomes;
  try {
    work(outcomes);
  } catch (const std::bad_alloc&) {  // a new link's mirrors, a copy to evaluate
    outcomes.clear();
    outcomes.emplace_back(peer::Failed{out_of_memory()});
    port_.hand_back(outcomes);
  }
}

void TrainerThread::work(std::vector<peer::Outcome>& outcomes) {
  auto worker = make_();
  make_ = nullptr;
  if (!worker) {
    outcomes.emplace_back(peer::Failed{std::move(worker.error())});
    port_.hand_back(outcomes);
    return;
  }
  while (!port_.closed()) {
    while (auto job = port_.try_next()) (*worker)->submit(std::move(*job));
    const auto begin = std::chrono::steady_clock::now();
    if ((*worker)->work(outcomes)) {
      peer::note_time(outcomes, std::chrono::steady_clock::now() - begin);
      port_.hand_back(outcomes);
      continue;
    }
    auto job = port_.next();
    if (!job) return;
    (*worker)->submit(std::move(*job));
  }
}

}  // namespace starling::io
