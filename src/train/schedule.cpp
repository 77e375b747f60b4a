#include "train/schedule.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace starling::train {

float learning_rate(const Config& config, double progress) noexcept {
  progress = std::clamp(progress, 0.0, 1.0);
  if (progress < config.warmup) return static_cast<float>(config.lr * progress / config.warmup);
  if (config.schedule == Schedule::constant || config.warmup >= 1.0) {
    return static_cast<float>(config.lr);
  }
  const double fraction = (progress - config.warmup) / (1.0 - config.warmup);
  return static_cast<float>(config.lr * 0.5 * (1.0 + std::cos(std::numbers::pi * fraction)));
}

}  // namespace starling::train
