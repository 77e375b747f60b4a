// Values as JSON, for status and summaries.
#pragma once

#include <optional>

#include <nlohmann/json_fwd.hpp>

#include "report/summary.hpp"

namespace starling::report {

[[nodiscard]] nlohmann::ordered_json bytes_json(const BytesByPurpose& bytes);

/// null if there is no number, or one that is not finite.
[[nodiscard]] nlohmann::ordered_json number_json(const std::optional<double>& value);

}  // namespace starling::report
