// Vectors that deltas are tested on.
#pragma once

#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include "base/rng.hpp"

namespace starling::delta::test {

/// Standard normal numbers (Box and Muller).
inline float normal(base::Rng& rng) {
  const double radius = std::sqrt(-2.0 * std::log(1.0 - rng.uniform()));
  return static_cast<float>(radius * std::cos(6.283185307179586 * rng.uniform()));
}

inline std::vector<float> normals(std::size_t n, base::Rng& rng, float scale = 1.0F) {
  std::vector<float> values(n);
  for (float& value : values) value = scale * normal(rng);
  return values;
}

struct Input {
  std::string name;
  std::vector<float> values;
};

/// Difficult differences: each is a way for a threshold estimate to fail.
inline std::vector<Input> inputs(std::size_t n, base::Rng& rng) {
  std::vector<Input> all{{"normal", normals(n, rng)},
                         {"heavy-tailed", normals(n, rng)},
                         {"uniform", std::vector<float>(n)},
                         {"constant", std::vector<float>(n, -0.25F)},
                         {"mostly zero", std::vector<float>(n, 0.0F)},
                         {"tied", std::vector<float>(n)},
                         {"all in the last tenth", std::vector<float>(n, 1e-6F)}};
  for (float& value : all[1].values)
    value = value * value * value / (1e-4F + value * value * 1e-3F);
  for (float& value : all[2].values) value = static_cast<float>(rng.uniform() - 0.5);
  for (std::size_t i = 0; i < n / 500; ++i) all[4].values[rng.below(n)] = normal(rng);
  for (float& value : all[5].values) value = static_cast<float>(rng.below(5)) - 2.0F;
  for (std::size_t i = n - n / 10; i < n; ++i) all[6].values[i] = normal(rng);
  return all;
}

}  // namespace starling::delta::test
