#include "sim/checks/advances.hpp"

#include <utility>

#include "train/schedule.hpp"

namespace starling::sim {
namespace {

/// Steps that were handed out before the rate was set anew.
constexpr std::uint64_t kStepsHandedOut = 3;

}  // namespace

void Advances::check(const Node& node) {
  const peer::Status status = node.core->status(world_.local(node));
  const Advance now{node.life, status.steps, status.progress};
  const Advance then = std::exchange(last_[node.number], now);
  if (then.life != now.life) return;
  if (now.progress < then.progress) {
    alarm_.raise("peer-{} went back from {} of the run to {}", node.peer, then.progress,
                 now.progress);
  }
  const train::Config& config = world_.task().run_file.train;
  const bool falls = then.progress >= config.warmup;
  if (status.phase != peer::Phase::training || now.steps < then.steps + kStepsHandedOut || !falls) {
    return;
  }
  const double most = train::learning_rate(config, then.progress);
  const double least = train::learning_rate(config, now.progress);
  if (status.learning_rate <= most && status.learning_rate >= least) return;
  alarm_.raise("peer-{} trains at a rate of {} after {} of the run, not at {}", node.peer,
               status.learning_rate, now.progress, least);
}

}  // namespace starling::sim
