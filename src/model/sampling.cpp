#include "model/sampling.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/assert.hpp"

namespace starling::model {

std::int32_t TokenSampler::next(std::span<const float> logits) {
  ASSERT(!logits.empty() && logits.size() <= std::numeric_limits<std::int32_t>::max());
  const auto value = [&](std::int32_t token) {
    const float logit = logits[static_cast<std::size_t>(token)];
    return std::isfinite(logit) ? logit : -std::numeric_limits<float>::infinity();
  };
  const auto larger = [&](std::int32_t a, std::int32_t b) {
    return value(a) != value(b) ? value(a) > value(b) : a < b;
  };
  order_.resize(logits.size());
  std::iota(order_.begin(), order_.end(), 0);
  std::size_t count =
      config_.top_k == 0 ? order_.size() : std::min<std::size_t>(config_.top_k, order_.size());
  if (config_.temperature == 0) count = 1;
  const auto end = order_.begin() + static_cast<std::ptrdiff_t>(count);
  std::partial_sort(order_.begin(), end, order_.end(), larger);
  if (config_.temperature == 0) return order_.front();

  const double top = value(order_.front());
  weights_.resize(count);
  double sum = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const double below = value(order_[i]) - top;
    weights_[i] = std::isfinite(below) ? std::exp(below / config_.temperature) : 0;
    sum += weights_[i];
  }
  double rest = rng_.uniform() * sum;
  for (std::size_t i = 0; i < count; ++i) {
    rest -= weights_[i];
    if (rest < 0) return order_[i];
  }
  return order_.front();  // rounding left a remainder, or no logit is finite
}

}  // namespace starling::model
