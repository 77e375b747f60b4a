#include "sim/checks/spectral_gap.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "base/rng.hpp"

namespace starling::sim {
namespace {

constexpr int kIterationsMax = 2000;
constexpr double kAtRest = 1e-9;  ///< change of the eigenvalue between two iterations

/// Removes the part that all have in common, the eigenvector of 1; returns the length of the rest.
double centre(std::vector<double>& v) {
  const double mean = std::accumulate(v.begin(), v.end(), 0.0) / static_cast<double>(v.size());
  double squares = 0;
  for (double& value : v) {
    value -= mean;
    squares += value * value;
  }
  return std::sqrt(squares);
}

}  // namespace

double spectral_gap(std::size_t peers, std::span<const Edge> edges) {
  if (peers < 2) return 1;
  std::vector<std::uint32_t> links(peers);
  for (const auto& [a, b] : edges) {
    ++links[a];
    ++links[b];
  }
  base::Rng rng(peers);
  std::vector<double> v(peers);
  for (double& value : v) value = rng.uniform() - 0.5;
  double length = centre(v);
  double eigenvalue = 0;
  for (int i = 0; i < kIterationsMax; ++i) {
    for (double& value : v) value /= length;
    std::vector<double> next = v;
    for (const auto& [a, b] : edges) {
      const double step = (v[b] - v[a]) / (1.0 + std::max(links[a], links[b]));
      next[a] += step;
      next[b] -= step;
    }
    v = std::move(next);
    length = centre(v);  // the length was 1 before: finally this is the eigenvalue
    if (length < kAtRest || std::abs(length - eigenvalue) < kAtRest) break;
    eigenvalue = length;
  }
  return 1 - length;
}

}  // namespace starling::sim
