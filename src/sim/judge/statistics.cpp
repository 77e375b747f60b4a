#include "sim/judge/statistics.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>

namespace starling::sim {

std::optional<double> percentile(std::vector<double> values, double part) {
  if (values.empty()) return std::nullopt;
  std::ranges::sort(values);
  // A value that is a whole number except for rounding counts as that number.
  constexpr double kRounding = 1e-9;
  const double rank = std::ceil(part * static_cast<double>(values.size()) - kRounding);
  const double last = static_cast<double>(values.size() - 1);
  return values[static_cast<std::size_t>(std::clamp(rank - 1, 0.0, last))];
}

std::optional<double> mean(const std::vector<double>& values) {
  if (values.empty()) return std::nullopt;
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

std::optional<double> largest(const std::vector<double>& values) {
  std::optional<double> most;
  for (const double value : values) {
    // Nothing is larger than a value that is not a number.
    if (!most || std::isnan(value) || value > *most) most = value;
    if (std::isnan(value)) break;
  }
  return most;
}

}  // namespace starling::sim
