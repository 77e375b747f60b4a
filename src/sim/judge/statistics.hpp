// One number from many values, to be compared with a limit. For both worlds.
#pragma once

#include <optional>
#include <vector>

namespace starling::sim {

/// The smallest value such that at least this fraction of all do not exceed it; nothing: no values.
[[nodiscard]] std::optional<double> percentile(std::vector<double> values, double part);
/// Nothing: no values.
[[nodiscard]] std::optional<double> mean(const std::vector<double>& values);
/// The largest, or one that is not a number; nothing: no values.
[[nodiscard]] std::optional<double> largest(const std::vector<double>& values);

}  // namespace starling::sim
