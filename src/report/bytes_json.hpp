// Bytes by purpose as JSON, as status and summaries have them.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "report/summary.hpp"

namespace starling::report {

[[nodiscard]] nlohmann::ordered_json bytes_json(const BytesByPurpose& bytes);

}  // namespace starling::report
