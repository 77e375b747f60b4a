#include <nlohmann/json.hpp>

#include "sim/language/plan.hpp"
#include "sim/language/scenario_names.hpp"

namespace starling::sim {
namespace {

using Json = nlohmann::ordered_json;

Json conditions_json(const Conditions& conditions) {
  Json json = Json::object();
  visit_conditions(conditions,
                   [&](const char* key, const std::optional<double>& value, double, double) {
                     if (value) json[key] = *value;
                   });
  return json;
}

Json nat_json(const PlannedPeer& peer) {
  if (!peer.nat) return nullptr;
  const NatSettings& nat = *peer.nat;
  return {{"kind", to_string(nat.kind)},
          {"router", peer.router},
          {"ipv6", to_string(nat.ipv6)},
          {"mapping", nat.mapping},
          {"pcp", nat.pcp},
          {"mtu_black_hole", nat.mtu_black_hole},
          {"proxy", to_string(nat.proxy)}};
}

Json attack_json(const PlannedPeer& peer) {
  if (!peer.attack) return nullptr;
  const hostile::AttackTraits& traits = hostile::traits_of(peer.attack->kind);
  return {{"kind", traits.name},
          {"factor", traits.has_factor() ? Json(peer.attack->factor) : Json(nullptr)},
          {"from", peer.attack->from_settling ? Json("settling") : Json(peer.attack->from)}};
}

Json event_json(const PlannedEvent& event) {
  Json json{{"at", event.at},
            {"until", event.until ? Json(*event.until) : Json(nullptr)},
            {"kind", to_string(event.kind)},
            {"peers", event.peers},
            {"line", event.line}};
  if (event.kind == Kind::join) json["via"] = event.via;
  if (event.kind == Kind::restart) {
    json["disk"] = to_string(event.disk);
    json["address"] = to_string(event.address);
  }
  if (event.kind == Kind::router_restart) json["address"] = to_string(event.address);
  if (event.kind == Kind::throttle) json["speed"] = event.speed;
  if (event.kind == Kind::skew) json["rate"] = event.rate;
  if (event.kind == Kind::degrade) json["conditions"] = conditions_json(event.conditions);
  if (cuts_paths(event.kind) || event.kind == Kind::degrade) {
    json["paths"] = Json::array();
    for (const Paths& paths : event.paths) {
      json["paths"].push_back({{"from", paths.from}, {"to", paths.to}});
    }
  }
  return json;
}

}  // namespace

std::string to_json(const Plan& plan) {
  const Scenario& scenario = plan.scenario;
  Json json;
  json["scenario"] = {{"name", scenario.name},
                      {"about", scenario.about},
                      {"file", scenario.file},
                      {"seed", plan.seed},
                      {"duration", scenario.duration}};
  json["run"] = {{"file", scenario.run_file.empty() ? Json(nullptr) : Json(scenario.run_file)},
                 {"set", scenario.set}};
  json["sim"] = {{"problem", to_string(scenario.sim.problem)},
                 {"step_ms", scenario.sim.step_ms},
                 {"elements", scenario.sim.elements},
                 {"buffers", scenario.sim.buffers},
                 {"buggify", scenario.sim.buggify}};
  json["peers"] = Json::array();
  for (const PlannedPeer& peer : plan.peers) {
    json["peers"].push_back({{"number", peer.number},
                             {"name", peer.name},
                             {"region", peer.region},
                             {"speed", peer.speed},
                             {"relay", peer.relay},
                             {"nat", nat_json(peer)},
                             {"attack", attack_json(peer)}});
  }
  json["network"] = {{"default", conditions_json(scenario.network)},
                     {"pairs", Json::array()},
                     {"lines", Json::array()}};
  for (const Line& line : scenario.lines) {
    json["network"]["lines"].push_back({{"region", line.region}, {"rate_mbit", line.rate_mbit}});
  }
  for (const RegionPair& pair : scenario.pairs) {
    json["network"]["pairs"].push_back(
        {{"between", {pair.a, pair.b}}, {"conditions", conditions_json(pair.conditions)}});
  }
  json["timeline"] = Json::array();
  for (const PlannedEvent& event : plan.events) json["timeline"].push_back(event_json(event));
  json["expect"] = Json::array();
  Json simulated_only = Json::array();
  for (const Expectation& expectation : scenario.expect) {
    const ExpectationKey& key = key_of(expectation.measure);
    json["expect"].push_back({{"name", key.name}, {"limit", expectation.limit}});
    if (key.simulated_only) simulated_only.push_back(key.name);
  }
  json["needs"] = {{"simulator", simulated_only},
                   {"links", expects(scenario, Measure::pairs_linked_within_s) ||
                                 expects(scenario, Measure::paths_within_s)},
                   {"undisturbed", expects(scenario, Measure::loss_ratio_max)}};
  json["paths"] = {{"direct", Json::array()}, {"circuit", Json::array()}};
  for (const ExpectedPath& path : scenario.paths) {
    json["paths"][std::string(to_string(path.path))].push_back({path.a, path.b});
  }
  return json.dump(1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace starling::sim
