// The learning rate over a run.
#pragma once

#include "train/config.hpp"

namespace starling::train {

/// The learning rate after `progress` of the run, 0 to 1 (values outside are taken as the nearer
/// end). It rises linearly from 0 over the first config.warmup of the run; then it stays at
/// config.lr (constant) or falls along half a cosine to 0 at the end (cosine; Loshchilov and
/// Hutter, arXiv:1608.03983, without restarts). A pure function.
[[nodiscard]] float learning_rate(const Config& config, double progress) noexcept;

}  // namespace starling::train
