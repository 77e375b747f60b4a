// The learning rate over a run.
#pragma once

#include "train/config.hpp"

namespace starling::train {

/// The learning rate after `progress` of the run, 0 to 1 (values outside count as the nearer end).
/// It rises linearly from 0 to config.lr over the first config.warmup of the run and never rises
/// again:
///   constant  stays at config.lr
///   cosine    falls along half a cosine (Loshchilov and Hutter, arXiv:1608.03983, no restarts)
///   linear    falls along a line; both end at config.final_lr * config.lr
///   step      is multiplied by config.step_factor at each of config.steps
/// A pure function of the swarm's progress, which is monotone: a healed partition makes the rate
/// step down, never up.
[[nodiscard]] float learning_rate(const Config& config, double progress) noexcept;

}  // namespace starling::train
