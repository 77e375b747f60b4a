// Draws a language model's next token.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/rng.hpp"

namespace starling::model {

struct Sampling {
  double temperature = 0.8;  ///< the logits are divided by it; 0: the largest is taken
  std::uint32_t top_k = 0;   ///< draws only from this many of the largest; 0: from all
};

/// Draws from the softmax of logits. One thread.
class TokenSampler {
 public:
  TokenSampler(const Sampling& config, std::uint64_t seed) : config_(config), rng_(seed) {}

  /// A token, as its place in `logits` (at least one). Logits that are not finite are never drawn
  /// if there are others. Among equal logits, the first count as larger. A draw with a temperature
  /// takes one random number.
  [[nodiscard]] std::int32_t next(std::span<const float> logits);

 private:
  Sampling config_;
  base::Rng rng_;
  std::vector<std::int32_t> order_;  ///< tokens, the largest logits first
  std::vector<double> weights_;      ///< of those
};

}  // namespace starling::model
