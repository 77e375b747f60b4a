#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "sim/run.hpp"

namespace starling::sim {

std::string to_json(const Report& report) {
  using Json = nlohmann::ordered_json;
  Json json{{"passed", report.passed}, {"seed", report.seed}};
  json["failure"] = report.failure.empty() ? Json(nullptr) : Json(report.failure);
  json["expectations"] = Json::array();
  for (const Outcome& outcome : report.expectations) {
    json["expectations"].push_back({{"name", outcome.name},
                                    {"passed", outcome.passed},
                                    {"value", outcome.value ? Json(*outcome.value) : Json(nullptr)},
                                    {"limit", outcome.limit}});
  }
  json["events"] = Json::array();
  for (const PlannedEvent& event : report.happened) {
    json["events"].push_back({{"at", event.at},
                              {"until", event.until ? Json(*event.until) : Json(nullptr)},
                              {"kind", to_string(event.kind)},
                              {"peers", event.peers}});
  }
  json["trace_hash"] = fmt::format("{:016x}", report.trace_hash);
  json["event_count"] = report.events;
  json["seconds"] = report.seconds;
  json["peer_seconds"] = report.peer_seconds;
  json["spectral_gap"] = report.spectral_gap ? Json(*report.spectral_gap) : Json(nullptr);
  json["ledger_coverage"] = report.ledger_coverage ? Json(*report.ledger_coverage) : Json(nullptr);
  return json.dump(1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace starling::sim
