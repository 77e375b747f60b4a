#include "peer/jobs.hpp"

#include <utility>

#include "exchange/replica.hpp"
#include "peer/conduct.hpp"
#include "train/update_kernels.hpp"

namespace starling::peer {

std::vector<base::SampleCounter> SaveJob::counters(std::uint64_t samples) const {
  std::vector<base::SampleCounter> all = others;
  all.push_back({own_prefix, recalled + samples});
  return all;
}

Outcome save(const SaveJob& job, const exchange::Replica& replica, const Snapshot& trained,
             std::span<float> copy, const Saver& saver) {
  replica.read(copy);
  if (!replica.status()) return Failed{replica.status().error()};
  const std::span<const float> buffers = replica.buffers().values();
  // The loss of a step is of the parameters before it: what the step made of them is not known yet.
  if (!train::kernels::all_finite(copy) || !train::kernels::all_finite(buffers)) {
    return Saved{trained.step, base::fail(base::ErrorCode::diverged,
                                          "the parameters or the buffers are not finite")};
  }
  const auto counters = job.counters(trained.samples);
  return Saved{trained.step, saver({.parameters = copy,
                                    .buffers = buffers,
                                    .rule = trained.rule,
                                    .step = trained.step,
                                    .samples = trained.samples,
                                    .progress = job.progress,
                                    .weight = job.weight,
                                    .counters = counters})};
}

bool run_exchange(exchange::JobQueue& jobs, exchange::Replica& replica, base::StepNumber step,
                  std::vector<Outcome>& outcomes, ExchangeObserver* observer, Conduct* conduct) {
  const std::vector<exchange::Job> due = jobs.take(step);
  if (due.empty()) return false;
  if (observer != nullptr) observer->before(due, replica);
  std::vector<exchange::Outcome> made = conduct != nullptr
                                            ? conduct->exchange(due, replica, step)
                                            : exchange::run_batch(due, replica, step);
  if (observer != nullptr) observer->after(due, replica, made);
  for (exchange::Outcome& outcome : made) outcomes.emplace_back(std::move(outcome));
  if (!replica.status()) outcomes.emplace_back(Failed{replica.status().error()});
  return true;
}

void note_time(std::span<Outcome> outcomes, base::Duration took) {
  for (Outcome& outcome : outcomes) {
    const base::Duration part = took / outcomes.size();
    if (auto* step = std::get_if<StepDone>(&outcome)) {
      step->took = part;
    } else if (auto* exchange = std::get_if<exchange::Outcome>(&outcome)) {
      if (auto* encoded = std::get_if<exchange::Encoded>(exchange)) encoded->took = part;
      if (auto* committed = std::get_if<exchange::Committed>(exchange)) committed->took = part;
    }
  }
}

}  // namespace starling::peer
