#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "sim/judge/judge.hpp"
#include "sim/run.hpp"

namespace starling::sim {

namespace {

using Json = nlohmann::ordered_json;

Json value_or_null(const std::optional<double>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json expectations_json(const std::vector<Outcome>& outcomes) {
  Json json = Json::array();
  for (const Outcome& outcome : outcomes) {
    json.push_back({{"name", outcome.name},
                    {"passed", outcome.passed},
                    {"value", value_or_null(outcome.value)},
                    {"limit", outcome.limit}});
  }
  return json;
}

std::string text_of(const Json& json) {
  return json.dump(1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

std::string to_json(const Verdict& verdict) {
  Json json{{"passed", verdict.passed}, {"expectations", expectations_json(verdict.expectations)}};
  json["measured"] = Json::object();
  for (const ExpectationKey& key : kExpectationKeys) {
    json["measured"][std::string(key.name)] = value_or_null(verdict.measured[key.measure]);
  }
  json["notes"] = verdict.notes;
  return text_of(json);
}

std::string to_json(const Report& report) {
  Json json{{"passed", report.passed}, {"seed", report.seed}};
  json["failure"] = report.failure.empty() ? Json(nullptr) : Json(report.failure);
  json["expectations"] = expectations_json(report.expectations);
  json["events"] = Json::array();
  for (const PlannedEvent& event : report.happened) {
    json["events"].push_back({{"at", event.at},
                              {"until", value_or_null(event.until)},
                              {"kind", to_string(event.kind)},
                              {"peers", event.peers}});
  }
  json["trace_hash"] = fmt::format("{:016x}", report.trace_hash);
  json["event_count"] = report.events;
  json["seconds"] = report.seconds;
  json["peer_seconds"] = report.peer_seconds;
  json["spectral_gap"] = value_or_null(report.spectral_gap);
  json["ledger_coverage"] = value_or_null(report.ledger_coverage);
  return text_of(json);
}

}  // namespace starling::sim
