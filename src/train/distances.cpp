#include "train/distances.hpp"

#include <cmath>
#include <cstddef>

namespace starling::train {

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

}  // namespace starling::train
