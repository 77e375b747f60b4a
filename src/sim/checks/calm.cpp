#include "sim/checks/calm.hpp"

#include <algorithm>

namespace starling::sim {
namespace {

/// After a fault, the peers that it concerned do not count as healthy for this many seconds.
constexpr double kConvalescence = 30;
/// This long after the last fault or start, all is as it was before.
constexpr double kAsBeforeSeconds = 60;

bool lasts(Kind kind) {
  return kind == Kind::stop || cuts_paths(kind) || kind == Kind::degrade ||
         kind == Kind::throttle || kind == Kind::skew || kind == Kind::twin;
}

/// Whether a path delivers everything.
bool is_good(const Conditions& conditions) {
  const auto none = [](const std::optional<double>& value) { return value.value_or(0) <= 0; };
  return none(conditions.loss) && none(conditions.corrupt) && none(conditions.rate_mbit);
}

bool is_clear(const Plan& plan) {
  const Scenario& scenario = plan.scenario;
  return !scenario.sim.buggify && is_good(scenario.network) && scenario.lines.empty() &&
         scenario.nats.empty() &&
         std::ranges::all_of(scenario.pairs, is_good, &RegionPair::conditions) &&
         !has_event(plan, Kind::degrade) && !has_event(plan, Kind::skew) &&
         !has_event(plan, Kind::twin);
}

}  // namespace

Calm::Calm(const World& world)
    : world_(world),
      times_(fault_times(world.plan())),
      clear_(is_clear(world.plan())),
      twins_(has_event(world.plan(), Kind::twin)),
      disturbances_(world.nodes().size()) {}

void Calm::fault(const PlannedEvent& event, bool begins) {
  last_change_ = world_.seconds();
  if (!begins) --active_;
  // A full disk disturbs no peer, but if it never ends, its peer never saves again.
  if (begins && (event.until || lasts(event.kind) || event.kind == Kind::disk_full)) ++active_;
  if (!lasts(event.kind)) return;
  for (const std::uint32_t peer : event.peers) {
    if (begins) {
      disturbances_.begin(peer);
    } else {
      disturbances_.end(peer, world_.seconds());
    }
  }
}

bool Calm::since(double at) const noexcept {
  return active_ == 0 && at >= last_change_ + kAsBeforeSeconds;
}

bool Calm::disturbed(std::uint32_t peer) const {
  return disturbances_.any(peer) || healthy_at(peer) > world_.seconds();
}

double Calm::healthy_at(std::uint32_t peer) const {
  const double started = world_.started(*world_.nodes()[peer]);
  return std::max(started, disturbances_.over_since(peer)) + kConvalescence;
}

}  // namespace starling::sim
