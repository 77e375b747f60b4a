// A run file's settings for training.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "compute/precision.hpp"

namespace starling::train {

enum class Optimizer { sgd, adamw, muon };
enum class Schedule { constant, cosine, linear, step };

inline constexpr std::size_t kStepsMax = 64;  ///< of a step schedule

struct Config {
  Optimizer optimizer = Optimizer::sgd;
  double lr = 0.05;           ///< the highest of the schedule
  bool lr_differs = false;    ///< lr may be far from that of the other peers
  double adam_lr = 0.0003;    ///< muon: lr of the parameters that it leaves to adamw
  double momentum = 0.9;      ///< sgd, muon
  bool nesterov = false;      ///< sgd, muon
  double beta1 = 0.9;         ///< adamw
  double beta2 = 0.999;       ///< adamw
  double epsilon = 1e-8;      ///< adamw
  double weight_decay = 0.0;  ///< sgd: added to the gradient; adamw, muon: decoupled
  double clip = 0.0;          ///< largest norm of a gradient; 0: any
  std::uint32_t batch = 64;   ///< samples a step of one peer
  /// A peer that is slower than most takes smaller batches in proportion, down to this, and shorter
  /// steps in proportion. 0: all batches have the same size.
  std::uint32_t batch_min = 0;
  std::uint32_t accumulate = 1;  ///< pieces in which a batch is computed, one after the other
  Schedule schedule = Schedule::constant;
  double warmup = 0.0;        ///< fraction of the run with a linearly rising learning rate
  double final_lr = 0.0;      ///< cosine, linear: the learning rate at the end, as a part of lr
  std::vector<double> steps;  ///< step: fractions of the run, ascending, each after the warm-up
  double step_factor = 0.1;   ///< step: multiplies the learning rate at each of them
  std::string device = "cpu";
  std::uint32_t threads = 1;                                   ///< compute threads of one peer
  compute::Precision precision = compute::Precision::float32;  ///< of a step; evaluation, too

  friend bool operator==(const Config&, const Config&) = default;
};

/// The settings if a run file only names the optimizer.
[[nodiscard]] inline Config defaults(Optimizer optimizer) {
  Config config{.optimizer = optimizer};
  if (optimizer == Optimizer::adamw) config.lr = 0.001;
  if (optimizer == Optimizer::muon) {
    config.lr = 0.02;
    config.momentum = 0.95;
    config.nesterov = true;
  }
  return config;
}

/// Whether devices have this update rule, so that a replica can be trained in their memory.
[[nodiscard]] inline bool can_train_on_device(const Config& config) noexcept {
  return config.optimizer != Optimizer::muon;
}

}  // namespace starling::train
