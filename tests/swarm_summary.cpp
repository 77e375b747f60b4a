#include "tests/swarm_summary.hpp"

#include <utility>

#include <nlohmann/json.hpp>

namespace starling::testing {

base::Result<report::SwarmSummary> read_swarm_summary(const std::string& text) {
  report::SwarmSummary summary;
  auto swarm = report::peer_summary_from_json(text);
  if (!swarm) return base::fail(swarm.error());
  summary.swarm = std::move(*swarm);
  const auto json = nlohmann::json::parse(text);
  if (!json.at("distance").is_null()) summary.distance = json.at("distance").get<double>();
  for (const auto& entry : json.at("peers")) {
    auto peer = report::peer_summary_from_json(entry.dump());
    if (!peer) return base::fail(peer.error());
    summary.peers.push_back(std::move(*peer));
  }
  return summary;
}

}  // namespace starling::testing
