// JSON from untrusted files.
#pragma once

#include <optional>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

namespace starling::train {

/// The parsed text. Nothing if it is not JSON, if it is nested deeper than `depth_max` (functions
/// that walk through JSON call themselves for each level), or if its outermost object has a name
/// twice.
[[nodiscard]] std::optional<nlohmann::json> read_json(std::string_view text, int depth_max);

}  // namespace starling::train
