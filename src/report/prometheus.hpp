// A peer's status for Prometheus: text exposition format 0.0.4
// (prometheus.io/docs/instrumenting/exposition_formats).
#pragma once

#include <string>
#include <string_view>

#include "peer/status.hpp"
#include "report/status_json.hpp"

namespace starling::report {

inline constexpr std::string_view kPrometheusType = "text/plain; version=0.0.4; charset=utf-8";

/// One family per figure, in base units (seconds, bytes, ratios from 0 to 1, losses in nats).
/// Figures that do not exist yet, like a loss before the first evaluation, are left out.
[[nodiscard]] std::string prometheus_text(const peer::Status& status, const StatusExtra& extra);

}  // namespace starling::report
