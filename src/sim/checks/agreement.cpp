#include "sim/checks/agreement.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string_view>

#include "sim/checks/replicas.hpp"
#include "sim/checks/survey.hpp"

namespace starling::sim {
namespace {

/// Of the replicas at the end of a run.
constexpr double kEndDistanceMax = 0.05;
/// Of equal ones, whose mean is rounded.
constexpr double kRingDistanceMax = 1e-6;
/// Of their buffers where rare branches drop links all the time: who has lost a link does not wait
/// for that neighbour, and buffers have fewer exchanges to come together in than replicas.
constexpr double kEndBuffersRareMax = 0.25;
/// Of the replicas of a swarm that has recovered: relative to their mean, and to the optimum.
constexpr double kDistanceMax = 0.2;
/// Of their buffers, which each peer draws its own way at every step.
constexpr double kBufferDistanceMax = 0.25;
/// Where rare branches drop links all the time, they have fewer exchanges to come together in.
constexpr double kBufferDistanceRareMax = 0.35;

}  // namespace

void check_end_of_run(const World& world, bool any_failed, Alarm& alarm) {
  const exchange::Mode mode = world.task().config.exchange.mode;
  const auto apart = largest_distance(world);
  if (exchange::uses_ring(mode) && !any_failed && apart && !(*apart <= kRingDistanceMax)) {
    alarm.raise("the ring ended with replicas {} from their mean", *apart);
  }
  if (!exchange::uses_links(mode)) return;
  if (apart && !(*apart <= kEndDistanceMax)) {
    alarm.raise("the run ended with replicas {} from their mean", *apart);
  }
  const auto buffers = buffer_distance(world);
  const bool rare = world.plan().scenario.sim.buggify;
  if (buffers && !(*buffers <= (rare ? kEndBuffersRareMax : kEndDistanceMax))) {
    alarm.raise("the run ended with buffers {} from their mean", *buffers);
  }
}

void check_replicas(const World& world, Alarm& alarm) {
  const Scenario& scenario = world.plan().scenario;
  if (scenario.sim.problem != Problem::quadratic) return;
  if (!exchange::uses_links(world.task().config.exchange.mode)) return;
  const auto near = [&](std::string_view what, const std::optional<double>& value) {
    if (value && !(*value <= kDistanceMax)) alarm.raise("replicas are {} from {}", *value, what);
  };
  near("their mean", largest_distance(world));
  near("the optimum", optimum_distance(world));
  const auto buffers = buffer_distance(world);
  const double limit = scenario.sim.buggify ? kBufferDistanceRareMax : kBufferDistanceMax;
  if (buffers && !(*buffers <= limit)) alarm.raise("buffers are {} from their mean", *buffers);
}

void check_shards(const World& world, Alarm& alarm) {
  std::map<std::uint32_t, std::size_t> owners;
  for (const auto& node : world.nodes()) {
    if (!trains(world, *node)) continue;
    for (const std::uint32_t shard : node->worker->shards()) ++owners[shard];
  }
  const std::size_t shards = world.task().shards->count();
  if (owners.size() != shards) alarm.raise("{} of {} shards are owned", owners.size(), shards);
  for (const auto& [shard, count] : owners) {
    if (count > 1) alarm.raise("shard {} has {} owners", shard, count);
  }
}

}  // namespace starling::sim
