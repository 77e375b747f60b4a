// Calm minutes: peers that ran throughout such a minute have gone on, exchanged and saved.
#include <algorithm>
#include <map>
#include <vector>

#include "sim/checks/check.hpp"
#include "sim/checks/stages.hpp"
#include "sim/checks/survey.hpp"

namespace starling::sim {
namespace {

constexpr double kMinute = 60;

/// Whether one frame may take as long as a minute: if lines or paths have a limited rate.
bool is_slow(const Scenario& scenario) {
  const auto limits = [](const Conditions& path) { return path.rate_mbit.value_or(0) > 0; };
  return !scenario.lines.empty() || limits(scenario.network) ||
         std::ranges::any_of(scenario.pairs, limits, &RegionPair::conditions);
}

class CalmMinutes final : public Check {
 public:
  explicit CalmMinutes(const Scene& scene)
      : world_(scene.world),
        calm_(scene.calm),
        stages_(scene.stages),
        alarm_(scene.alarm),
        slow_(is_slow(scene.world.plan().scenario)) {}

  void second_ends() override;

 private:
  /// A peer as it was when the minute began.
  struct Noted {
    std::uint32_t life = 0;
    std::uint64_t step = 0;
    std::map<base::PeerId, LinkLedger> links;
  };

  void begin();
  [[nodiscard]] bool is_hostile(const base::PeerId& peer) const;
  void check_exchanges(const Node& node, const Noted& then);
  void check_saves(const Node& node, const Noted& then);

  const World& world_;
  const Calm& calm_;
  Stages& stages_;
  Alarm& alarm_;
  const bool slow_;           ///< one frame may take as long as a minute
  std::vector<Noted> noted_;  ///< of each node; empty: no minute has begun
  double since_ = 0;          ///< seconds
};

void CalmMinutes::second_ends() {
  if (lacks_hub(world_)) return noted_.clear();
  if (!calm_.now() || stages_.ending()) return noted_.clear();
  if (!noted_.empty() && world_.seconds() < since_ + kMinute) return;
  for (const auto& node : world_.nodes()) {
    if (noted_.empty()) break;
    const Noted& then = noted_[node->number];
    if (!trains(*node) || node->hostile || then.life != node->life) continue;
    stages_.check_goes_on(*node);
    if (!slow_) check_exchanges(*node, then);
    if (!waits_for_ring(world_, *node)) check_saves(*node, then);
  }
  begin();
}

void CalmMinutes::begin() {
  since_ = world_.seconds();
  noted_.assign(world_.nodes().size(), {});
  for (const auto& node : world_.nodes()) {
    if (!node->is_up()) continue;
    noted_[node->number] = {.life = node->life,
                            .step = node->worker->step().value,
                            .links = node->worker->ledger().links()};
  }
}

bool CalmMinutes::is_hostile(const base::PeerId& peer) const {
  return std::ranges::any_of(world_.nodes(),
                             [&](const auto& node) { return node->hostile && node->id == peer; });
}

// Two that were neighbours throughout, over the same mirrors, must have gone on exchanging.
void CalmMinutes::check_exchanges(const Node& node, const Noted& then) {
  for (const auto& neighbour : node.core->membership().neighbours(world_.local(node))) {
    const auto before = then.links.find(neighbour.peer);
    const auto after = node.worker->ledger().links().find(neighbour.peer);
    if (before == then.links.end() || after == node.worker->ledger().links().end()) continue;
    if (before->second.serial != after->second.serial) continue;
    if (before->second.committed < after->second.committed) continue;
    if (is_hostile(neighbour.peer)) continue;
    alarm_.raise("peer-{} and {} have made no exchange after {} for {} s", node.peer,
                 neighbour.peer.brief(), after->second.committed.value, kMinute);
  }
}

void CalmMinutes::check_saves(const Node& node, const Noted& then) {
  const double every = base::seconds(world_.task().config.checkpoint_every);
  if (every <= 0 || every > kMinute / 3) return;
  const Checkpoint* saved = node.folder.newest_whole();
  if (saved == nullptr || saved->step.value < then.step) {
    alarm_.raise("peer-{} has saved nothing for {} s", node.peer, kMinute);
  }
}

}  // namespace

std::unique_ptr<Check> make_calm_minutes(const Scene& scene) {
  return std::make_unique<CalmMinutes>(scene);
}

}  // namespace starling::sim
