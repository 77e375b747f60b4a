// Of many values, the one that is compared with a limit. In both worlds.
#pragma once

#include <optional>
#include <vector>

namespace starling::sim {

/// The smallest of the values that at least this part of all do not exceed; nothing: there is none.
[[nodiscard]] std::optional<double> percentile(std::vector<double> values, double part);
/// Nothing: there is none.
[[nodiscard]] std::optional<double> mean(const std::vector<double>& values);
/// The largest, or one that is not a number; nothing: there is none.
[[nodiscard]] std::optional<double> largest(const std::vector<double>& values);
/// |x_i - mean| / |mean| of each vector x_i, all of one size; none of fewer than two.
[[nodiscard]] std::vector<double> distances(const std::vector<std::vector<float>>& all);

}  // namespace starling::sim
