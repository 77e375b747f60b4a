#include "train/schedule.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace starling::train {
namespace {

/// The part of config.lr that applies after the warm-up.
double factor(const Config& config, double progress) noexcept {
  if (config.schedule == Schedule::constant) return 1.0;
  if (config.schedule == Schedule::step) {
    double product = 1.0;
    for (const double step : config.steps) product *= progress >= step ? config.step_factor : 1.0;
    return product;
  }
  if (config.warmup >= 1.0) return 1.0;
  const double fraction = (progress - config.warmup) / (1.0 - config.warmup);
  const double left = config.schedule == Schedule::cosine
                          ? 0.5 * (1.0 + std::cos(std::numbers::pi * fraction))
                          : 1.0 - fraction;
  return config.final_lr + (1.0 - config.final_lr) * left;
}

}  // namespace

float learning_rate(const Config& config, double progress) noexcept {
  progress = std::clamp(progress, 0.0, 1.0);
  if (progress < config.warmup) return static_cast<float>(config.lr * progress / config.warmup);
  return static_cast<float>(config.lr * factor(config, progress));
}

}  // namespace starling::train
