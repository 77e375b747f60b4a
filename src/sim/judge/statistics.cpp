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

std::vector<double> distances(const std::vector<std::vector<float>>& all) {
  if (all.size() < 2) return {};
  const auto square = [](double value) { return value * value; };
  std::vector<double> mean(all.front().size());
  double norm = 0;
  for (std::size_t e = 0; e < mean.size(); ++e) {
    for (const auto& x : all) mean[e] += static_cast<double>(x[e]);
    mean[e] /= static_cast<double>(all.size());
    norm += square(mean[e]);
  }
  std::vector<double> distances;
  for (const auto& x : all) {
    double off = 0;
    for (std::size_t e = 0; e < mean.size(); ++e) {
      off += square(static_cast<double>(x[e]) - mean[e]);
    }
    distances.push_back(off == 0 ? 0 : std::sqrt(off / norm));
  }
  return distances;
}

}  // namespace starling::sim
