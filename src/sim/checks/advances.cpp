// The swarm's progress as each peer sees it: it never falls, and the learning rate follows it.
#include <map>
#include <utility>

#include "sim/checks/check.hpp"
#include "train/schedule.hpp"

namespace starling::sim {
namespace {

/// Steps that were handed out before the rate was set again.
constexpr std::uint64_t kStepsHandedOut = 3;

class Advances final : public Check {
 public:
  explicit Advances(const Scene& scene) : world_(scene.world), alarm_(scene.alarm) {}

  void inspect(const Node& node) override {
    if (node.hostile) return;
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
    if (status.phase != peer::Phase::training || now.steps < then.steps + kStepsHandedOut ||
        !falls) {
      return;
    }
    const double most = train::learning_rate(config, then.progress);
    const double least = train::learning_rate(config, now.progress);
    if (status.learning_rate <= most && status.learning_rate >= least) return;
    alarm_.raise("peer-{} trains at a rate of {} after {} of the run, not at {}", node.peer,
                 status.learning_rate, now.progress, least);
  }

 private:
  /// A peer's progress when it was last looked at.
  struct Advance {
    std::uint32_t life = 0;
    std::uint64_t steps = 0;
    double progress = 0;
  };

  const World& world_;
  Alarm& alarm_;
  std::map<std::uint32_t, Advance> last_;  ///< by node
};

}  // namespace

std::unique_ptr<Check> make_advances(const Scene& scene) {
  return std::make_unique<Advances>(scene);
}

}  // namespace starling::sim
