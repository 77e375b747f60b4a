// JSON of files that come from anywhere.
#pragma once

#include <optional>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

namespace starling::train {

/// What the text says. Nothing where it is no JSON, where it is nested deeper than `depth_max`
/// (functions that walk through JSON call themselves for each level), and where its outermost
/// object has a name twice.
[[nodiscard]] std::optional<nlohmann::json> read_json(std::string_view text, int depth_max);

}  // namespace starling::train
