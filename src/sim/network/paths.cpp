#include "sim/network/paths.hpp"

#include <algorithm>

namespace starling::sim {
namespace {

void lay_over(PathState& state, const Conditions& conditions) {
  const auto take = [](double& field, const std::optional<double>& value) {
    if (value) field = *value;
  };
  take(state.latency_ms, conditions.latency_ms);
  take(state.jitter_ms, conditions.jitter_ms);
  take(state.rate_mbit, conditions.rate_mbit);
  take(state.loss, conditions.loss);
  take(state.reorder, conditions.reorder);
  take(state.corrupt, conditions.corrupt);
}

}  // namespace

PathTable::PathTable(const Plan& plan) : peers_(plan.peers.size()), faults_of_(peers_) {
  const Scenario& scenario = plan.scenario;
  const auto index = [&](const std::string& region) {
    const auto at = std::ranges::find(scenario.regions, region);
    return static_cast<std::uint32_t>(at - scenario.regions.begin());
  };
  for (const PlannedPeer& peer : plan.peers) region_.push_back(index(peer.region));
  PathState base;
  lay_over(base, scenario.network);
  regions_.assign(scenario.regions.size(), std::vector<PathState>(scenario.regions.size(), base));
  lines_.resize(scenario.regions.size());
  for (const Line& line : scenario.lines) lines_[index(line.region)] = line.rate_mbit;
  for (const RegionPair& pair : scenario.pairs) {
    lay_over(regions_[index(pair.a)][index(pair.b)], pair.conditions);
    if (pair.a != pair.b) lay_over(regions_[index(pair.b)][index(pair.a)], pair.conditions);
  }
}

PathState PathTable::state(std::uint32_t from, std::uint32_t to) const {
  PathState state = regions_[region_[from]][region_[to]];
  for (const Fault& fault : faults_of_[from]) {
    if (!(*fault.to)[to]) continue;
    if (cuts_paths(fault.event->kind)) {
      state.cut = true;
    } else {
      lay_over(state, fault.event->conditions);
    }
  }
  return state;
}

bool PathTable::cut(std::uint32_t from, std::uint32_t to) const {
  return std::ranges::any_of(faults_of_[from], [&](const Fault& fault) {
    return cuts_paths(fault.event->kind) && (*fault.to)[to];
  });
}

std::uint64_t PathTable::add(const PlannedEvent& event) {
  const std::uint64_t number = next_++;
  for (const Paths& paths : event.paths) {
    Set& set = sets_.emplace_back(Set{number, std::vector<bool>(peers_)});
    for (const std::uint32_t peer : paths.to) set.peers[peer] = true;
    for (const std::uint32_t peer : paths.from) {
      faults_of_[peer].push_back({number, &set.peers, &event});
    }
  }
  ++faults_;
  return number;
}

void PathTable::remove(std::uint64_t fault) {
  for (auto& faults : faults_of_) {
    std::erase_if(faults, [&](const Fault& entry) { return entry.number == fault; });
  }
  sets_.remove_if([&](const Set& set) { return set.number == fault; });
  --faults_;
}

}  // namespace starling::sim
